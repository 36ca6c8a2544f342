"""What rollbacks have changed in a run: kept in its checkpoints, so that a resumed run stays treated."""

from dataclasses import dataclass, replace
from typing import Self

__all__ = ["UNTREATED", "Treatment"]

LLDS_WEIGHT = 0.1
"""λ of the paper: what turning LLDS on means."""


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """The changes to a run's settings since it began.

    Attributes:
        rollbacks: How often it went back.
        lr_factor: What the learning rate is multiplied by.
        lambda_: Weight of LLDS where rollbacks have set it; None leaves it to the settings.
    """

    rollbacks: int = 0
    lr_factor: float = 1.0
    lambda_: float | None = None

    def after_rollback(self, *, lr: float, llds: bool, weight: float) -> Self:
        """Give the treatment after one more rollback.

        Args:
            lr: Factor on the learning rate.
            llds: Whether to turn LLDS on, at 0.1, or to double its weight where that is more.
            weight: Weight of LLDS so far.
        """
        return replace(
            self,
            rollbacks=self.rollbacks + 1,
            lr_factor=self.lr_factor * lr,
            lambda_=max(LLDS_WEIGHT, 2 * weight) if llds else self.lambda_,
        )


UNTREATED = Treatment()
