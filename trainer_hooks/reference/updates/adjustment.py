"""Settings that rollbacks and forks have changed in a run. Checkpoints hold them, so that a resumed run keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

__all__ = ["UNADJUSTED", "Adjustment"]

LLDS_WEIGHT = 0.1
"""λ of the paper, used when LLDS is turned on."""


@dataclass(frozen=True, kw_only=True)
class Adjustment:
    """Changes to a run's settings since it began.

    Attributes:
        rollbacks: Number of rollbacks, and of forks that the run went on with.
        lr_factor: Factor on the learning rate.
        lambda_: Weight of LLDS if rollbacks have set it; with None the weight of the settings is in force.
        settings: Further settings that forks have changed, by name (`Config`).
    """

    rollbacks: int = 0
    lr_factor: float = 1.0
    lambda_: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def after_rollback(self, *, lr: float, llds: bool, weight: float) -> Self:
        """Return the adjustment after one more rollback.

        Args:
            lr: Factor on the learning rate.
            llds: Whether to turn LLDS on, with the larger of 0.1 and twice its weight so far.
            weight: Weight of LLDS so far.
        """
        return replace(
            self,
            rollbacks=self.rollbacks + 1,
            lr_factor=self.lr_factor * lr,
            lambda_=max(LLDS_WEIGHT, 2 * weight) if llds else self.lambda_,
        )

    def after_fork(self, *, lr: float, settings: Mapping[str, Any]) -> Self:
        """Return the adjustment of a fork.

        Args:
            lr: Factor on the learning rate.
            settings: Settings that its treatment changes. If the method is among them, the weight of LLDS that earlier
                rollbacks have set is no longer in force.
        """
        return replace(
            self,
            rollbacks=self.rollbacks + 1,
            lr_factor=self.lr_factor * lr,
            lambda_=None if "method" in settings else self.lambda_,
            settings={**self.settings, **settings},
        )


UNADJUSTED = Adjustment()
