"""The decisions on alerts that a training loop reads and carries out itself."""

from collections.abc import Sequence
from dataclasses import replace

from torch import distributed

from trainer_hooks.actions import MAX_DECISIONS, ActionPolicy, Decision
from trainer_hooks.ranks.agreement import make_coordinator
from trainer_hooks.ranks.coordinators import LEFT_BEHIND, Coordinator, SingleProcessCoordinator
from trainer_hooks.ranks.process_group import find_world_size
from trainer_hooks.wire import ActionReport

__all__ = ["LoopDecisions"]

# The detail of an action that is left to the loop; this module cannot find out whether the loop has carried it out.
DELEGATED = "handed to the loop, which carries it out itself"


class LoopDecisions:
    """Holds a policy's decisions until the loop has read them: after the same step on every rank, or on none.

    Args:
        policy: Maps alerts to actions; without one there is no decision.
    """

    def __init__(self, policy: ActionPolicy | None) -> None:
        self._policy = policy
        self._coordinator: Coordinator = make_coordinator(find_world_size()) if policy else SingleProcessCoordinator()
        self._decisions: list[Decision] = []
        self._has_read = False
        self._has_gone_back = False

    def read(self) -> Sequence[Decision]:
        """Return the decisions to carry out now. They stay until the first step after this."""
        self._has_read = True
        return tuple(self._decisions)

    def clear(self) -> None:
        """Drop the decisions."""
        self._decisions = []

    def go_back(self, step: int) -> None:
        """From now on, refuse decisions about alerts that opened at a step, to which the loop goes back, or later."""
        self._has_gone_back = True
        self._coordinator.go_back(step)

    def after_step(self, step: int) -> list[ActionReport]:
        """Drop what the loop has read, take the decisions that are due after a step, and return their reports."""
        if self._has_read:
            self._decisions, self._has_read = [], False
        if self._policy is None:
            return []
        settled_decisions = self._coordinator.settle(self._policy.take_due(), step)
        if self._has_gone_back:  # the same alerts and the same step on every rank
            left = [each.decision.is_left_behind(step) for each in settled_decisions]
            settled_decisions = [
                replace(each, refusal=each.refusal or LEFT_BEHIND) if is_left else each
                for each, is_left in zip(settled_decisions, left, strict=True)
            ]
        new = [settled.decision for settled in settled_decisions if settled.refusal is None]
        self._decisions = [*self._decisions, *new][-MAX_DECISIONS:]
        reports = [
            settled.decision.report("refused", settled.refusal)
            if settled.refusal
            else settled.decision.report("taken", "" if settled.decision.action == "notify" else DELEGATED)
            for settled in settled_decisions
            if settled.is_reported_here
        ]
        foreseen = self._policy.take_foreseen()
        return reports + [decision.report("dry_run") for decision in foreseen if _rank() == 0]


def _rank() -> int:
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
