"""One run while a batch or a tick works on it, inside one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor_server.alerts.lifecycle import Lifecycle
from monitor_server.projection.assembly import StepRecords
from monitor_server.projection.events import ActionReported, AlertChanged, Event, RunChanged, StepCompleted
from monitor_server.settings import Deadlines
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run
from monitor_server.store.repositories.steps import Step
from trainer_hooks.wire import ActionReport

__all__ = ["Key", "Work"]

Key = tuple[int, int]
"""Attempt and step: the order in which detection takes them."""


@dataclass(slots=True, kw_only=True)
class Work:
    """What is at hand: the store, the run, the records of the steps touched, and the events to tell afterwards."""

    repositories: Repositories
    run: Run
    alerts: Lifecycle
    now: float
    steps: dict[Key, StepRecords] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    _attempts: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def on(cls, run: Run, repositories: Repositories, *, now: float) -> "Work":
        """Begin to work on a run."""
        return cls(repositories=repositories, run=run, alerts=Lifecycle(repositories.alerts, run.id), now=now)

    def save(self) -> None:
        """Write the run and its alerts back."""
        self.alerts.save()
        self.repositories.runs.save(self.run)

    def world_size(self, attempt: int) -> int:
        """Give how many ranks an attempt has."""
        return self._attempt(attempt)[1]

    def tell_steps(self, steps: Sequence[Step]) -> None:
        """Note an event for each step."""
        for step in steps:
            ordinal = self._attempt(step.attempt)[0]
            self.events.append(StepCompleted(run_id=self.run.id, attempt=ordinal, phase=self.run.phase, step=step))

    def tell_alerts(self, changed: Sequence[Alert]) -> None:
        """Note an event for each alert that opened, became more severe or resolved."""
        run = self.run
        self.events += [
            AlertChanged(run_id=run.id, run=run.name, project=run.project, alert=alert) for alert in changed
        ]

    def note_actions(self, reports: Sequence[ActionReport], *, attempt: int, step: int, rank: int, time: float) -> None:
        """Keep what a record tells of actions, and note an event for each."""
        self.repositories.actions.add(self.run.id, reports, attempt=attempt, step=step, rank=rank, time=time)
        ordinal = self._attempt(attempt)[0]
        self.events += [
            ActionReported(run_id=self.run.id, attempt=ordinal, step=step, rank=rank, time=time, report=report)
            for report in reports
        ]

    def tell_run(self, deadlines: Deadlines) -> None:
        """Note an event for the run as it is written."""
        row = self.repositories.runs.view(self.run.id, now=self.now, deadlines=deadlines)
        if row is not None:
            self.events.append(RunChanged(run_id=self.run.id, view=row))

    def _attempt(self, attempt: int) -> tuple[int, int]:
        if not self._attempts:
            self._attempts = self.repositories.runs.attempts(self.run.id)
        return self._attempts[attempt]
