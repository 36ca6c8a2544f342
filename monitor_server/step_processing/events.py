"""Domain events, which describe a change. They are published after the commit; `api.live_events` renders them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.steps import Step
from trainer_hooks.wire import ActionReport

__all__ = ["ActionReported", "AlertChanged", "Event", "RunChanged", "RunDeleted", "StepCompleted", "ViewShown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted:
    """A step is complete and detection has processed it; ``attempt`` counts from 1, ``phase`` is the current phase.

    ``last_seen`` is the time of the newest message of the run, which is much later than the step in a backlog, and much
    earlier than now in the backlog of a trainer that has died.
    """

    run_id: str
    attempt: int
    phase: str
    last_seen: float
    step: Step
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChanged:
    """An alert opened, became more severe, was acknowledged or resolved.

    ``open_kinds`` are the kinds of the alerts that fire on the run after this step.
    """

    run_id: str
    run: str
    project: str
    alert: Alert
    open_kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReported:
    """A trainer reported its action about an alert; ``attempt`` counts from 1, ``time`` since the epoch."""

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
    """A person deleted a run, which no page shows any more."""

    run_id: str
    project: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewShown:
    """A person shows a page to everybody who has the dashboard open; each stream receives it, whatever its run."""

    address: str
    note: str
    by: str
    at: float
    project: str | None
    run_id: None = None


Event = StepCompleted | AlertChanged | ActionReported | RunChanged | RunDeleted | ViewShown
