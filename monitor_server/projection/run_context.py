"""One run while a slice of its log is projected, inside one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from monitor_server.alerts.lifecycle import Lifecycle
from monitor_server.projection.events import ActionReported, AlertChanged, Event, RunChanged, StepCompleted
from monitor_server.settings import Deadlines
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run
from monitor_server.store.repositories.steps import Step
from trainer_hooks.wire import ActionReport

__all__ = ["Key", "RunContext"]

Key = tuple[int, int]
"""Attempt and step: the order in which detection sees them."""


@dataclass(slots=True, kw_only=True)
class RunContext:
    """The store, the run as it is by now, its alerts, and the events to publish after the commit."""

    repositories: Repositories
    run: Run
    alerts: Lifecycle
    positions: Mapping[str, int]
    now: float
    is_watched: bool
    events: list[Event] = field(default_factory=list)
    _attempts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def world_size(self, attempt: int) -> int:
        """Return how many ranks an attempt has."""
        return self._attempt(attempt)[1]

    def add_step(self, step: Step) -> None:
        """Add an event for a complete step."""
        if self.is_watched:
            ordinal = self._attempt(step.attempt)[0]
            self.events.append(StepCompleted(run_id=self.run.id, attempt=ordinal, phase=self.run.phase, step=step))

    def add_alerts(self, changed: Sequence[Alert]) -> None:
        """Add an event for each alert that opened, became more severe, was acknowledged or resolved."""
        run = self.run
        self.events += [
            AlertChanged(run_id=run.id, run=run.name, project=run.project, alert=alert) for alert in changed
        ]

    def add_actions(self, reports: Sequence[ActionReport], *, attempt: int, step: int, rank: int, time: float) -> None:
        """Write the actions that a record reports, and add an event for each."""
        self.repositories.actions.add(self.run.id, reports, attempt=attempt, step=step, rank=rank, time=time)
        ordinal = self._attempt(attempt)[0]
        self.events += [
            ActionReported(run_id=self.run.id, attempt=ordinal, step=step, rank=rank, time=time, report=report)
            for report in reports
        ]

    def add_run(self, deadlines: Deadlines) -> None:
        """Add an event for the run as it is written."""
        row = self.repositories.runs.view(self.run.id, now=self.now, deadlines=deadlines)
        if row is not None:
            self.events.append(RunChanged(run_id=self.run.id, view=row))

    def _attempt(self, attempt: int) -> tuple[int, int]:
        if attempt not in self._attempts:
            self._attempts = self.repositories.runs.attempts(self.run.id)
        return self._attempts[attempt]
