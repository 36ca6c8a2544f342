"""Domain events: what has happened. They are published after the commit and rendered by `api.live_events`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.steps import Step
from trainer_hooks.wire import ActionReport

__all__ = ["ActionReported", "AlertChanged", "Event", "RunChanged", "RunDeleted", "StepCompleted", "ViewShown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted:
    """A step is complete and detection has seen it; ``attempt`` counts from 1, ``phase`` is the run's phase by now."""

    run_id: str
    attempt: int
    phase: str
    step: Step
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChanged:
    """An alert opened, became more severe, was acknowledged or resolved."""

    run_id: str
    run: str
    project: str
    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReported:
    """A trainer reported what it did about an alert; ``attempt`` counts from 1, ``time`` since the epoch."""

    run_id: str
    attempt: int
    step: int
    rank: int
    time: float
    report: ActionReport
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChanged:
    """A run is new or was reset, or has another status or other labels; ``view`` is its row of `RunViews`."""

    run_id: str
    view: Mapping[str, Any]

    @property
    def project(self) -> str:
        """The run's project."""
        return str(self.view["project"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDeleted:
    """Somebody deleted a run, which nobody sees any more."""

    run_id: str
    project: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewShown:
    """Somebody shows a page of the dashboard to whoever has one open; it comes to each stream, whatever its run."""

    address: str
    note: str
    by: str
    at: float
    project: str | None
    run_id: None = None


Event = StepCompleted | AlertChanged | ActionReported | RunChanged | RunDeleted | ViewShown
