"""What becomes of decisions after each step: they are settled at once, refused, or left to an agreement of ranks."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from trainer_hooks.actions import Decision

__all__ = [
    "EXPIRED",
    "LEFT_BEHIND",
    "Coordinator",
    "RefusingCoordinator",
    "SettledDecision",
    "SingleProcessCoordinator",
    "without_lost_rollbacks",
]

EXPIRED: Final = "expired: its time limit had passed before the end of a step"
LEFT_BEHIND: Final = "the loop has gone back to before the step at which this alert opened"


@dataclass(frozen=True, slots=True)
class SettledDecision:
    """A decision to carry out now, or a refused decision, which is not tried again; one of the ranks reports it.

    Attributes:
        decision: The decision.
        refusal: Why it was refused; None where it is to be carried out.
        is_reported_here: Whether this rank reports it.
    """

    decision: Decision
    refusal: str | None = None
    is_reported_here: bool = True


class Coordinator(Protocol):
    """Decides after each step which decisions every rank carries out now."""

    def settle(self, decisions: Iterable[Decision], step: int) -> list[SettledDecision]:
        """Add new decisions of this rank, and return those of all open decisions that are settled after this step.

        Every rank calls this after every step.
        """

    def go_back(self, step: int) -> None:
        """Refuse the open decisions about alerts that opened at ``step``, which the loop makes next, or later."""


class SingleProcessCoordinator:
    """Settles decisions of a single process.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    def settle(self, decisions: Iterable[Decision], step: int) -> list[SettledDecision]:
        """Settle all decisions at once."""
        now = self._clock()
        return without_lost_rollbacks(
            [SettledDecision(decision, EXPIRED if decision.has_expired(now) else None) for decision in decisions]
        )

    def go_back(self, step: int) -> None:
        """Do nothing: no decision is open after a step."""


class RefusingCoordinator:
    """Refuses decisions of several processes that cannot agree.

    Args:
        reason: Why they cannot agree.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def settle(self, decisions: Iterable[Decision], step: int) -> list[SettledDecision]:
        """Refuse all decisions."""
        return [SettledDecision(decision, self._reason) for decision in decisions]

    def go_back(self, step: int) -> None:
        """Do nothing: no decision is open after a step."""


def without_lost_rollbacks(settled: list[SettledDecision]) -> list[SettledDecision]:
    """Refuse a rollback after the step after which training ends; the result is the same on every rank."""
    if not any(each.decision.action == "stop" and each.refusal is None for each in settled):
        return settled
    return [
        replace(each, refusal="training ends after this step, because a stop is carried out")
        if each.decision.action == "rollback" and each.refusal is None
        else each
        for each in settled
    ]
