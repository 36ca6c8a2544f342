"""The changes of alerts that people are notified of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run

__all__ = ["AlertTransition", "RecordTransitions", "record_no_transitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTransition:
    """A change of an alert that is notified; ``raised`` means that the alert has become more severe."""

    change: Literal["opened", "raised", "resolved"]
    alert: Alert
    at: float


RecordTransitions = Callable[[Repositories, Run, Sequence[AlertTransition]], None]
"""Writes the notifications about some transitions, in their transaction."""


def record_no_transitions(repositories: Repositories, run: Run, transitions: Sequence[AlertTransition]) -> None:
    """Write nothing, where nobody is notified."""
    del repositories, run, transitions
