"""One run while a slice of its log is projected: the state that was read, and the changes to be written.

A slice is computed on one snapshot of the store, while other threads write. Its changes are collected here and written
afterwards in one short transaction, so that ingest never waits for detection.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from monitor_server.action_requests.requesting import record_answer
from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.detection.protocol import SEEN_SHARE
from monitor_server.settings import Deadlines
from monitor_server.step_processing.events import ActionReported, AlertChanged, Event, RunChanged, StepCompleted
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run
from monitor_server.store.repositories.steps import Step
from trainer_hooks.wire import ActionReport

__all__ = ["Key", "RunContext"]

Key = tuple[int, int]
"""Attempt and step, in the order in which detection processes them."""


@dataclass(slots=True, kw_only=True)
class RunContext:
    """The snapshot, the current state of the run, its alerts, the changes to be written, and the events to publish.

    Attributes:
        repositories: The snapshot on which the slice is computed.
        run: The run; its columns of the projector are written at the end.
        alerts: The alerts that fire.
        positions: The position of each signal in a packed step.
        now: Seconds since the epoch.
        is_watched: Whether a subscriber wants an event for each step.
        completed: Steps that this slice has completed.
        mended: Steps that were complete before and are merged again.
        events: The events to publish after the commit.
    """

    repositories: Repositories
    run: Run
    alerts: Lifecycle
    positions: Mapping[str, int]
    now: float
    is_watched: bool
    completed: dict[Key, Step] = field(default_factory=dict)
    mended: dict[Key, Step] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    _writes: list[Callable[[Repositories], None]] = field(default_factory=list)
    _attempts: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def has_writes(self) -> bool:
        """Whether there are changes to write other than those of the run itself."""
        return bool(self._writes or self.completed or self.mended)

    def defer(self, write: Callable[[Repositories], None]) -> None:
        """Add a change to be written in the transaction of the slice; changes are written in the order of the calls."""
        self._writes.append(write)

    def write(self, repositories: Repositories) -> None:
        """Write the steps of the slice and all deferred changes."""
        for deferred in self._writes:
            deferred(repositories)
        steps, run_id = repositories.steps, self.run.id
        steps.put(run_id, self.completed.values(), replace=False, positions=self.positions)
        steps.put(run_id, self.mended.values(), replace=True, positions=self.positions)
        written = [*self.completed.values(), *self.mended.values()]
        # Thinning considers them again, also where it has been: a resumed run repeats steps.
        self.run.steps_thinned_to = min([self.run.steps_thinned_to, *(step.step for step in written)])

    def world_size(self, attempt: int) -> int:
        """Return the number of ranks of an attempt."""
        return self._attempt(attempt)[1]

    def known_world_size(self, attempt: int) -> int:
        """Return the number of ranks of an attempt, or 1 if an older run has no place for the signal `SEEN_SHARE`."""
        return self.world_size(attempt) if SEEN_SHARE in self.positions else 1

    def add_step(self, step: Step) -> None:
        """Add an event for a complete step."""
        if self.is_watched:
            ordinal = self._attempt(step.attempt)[0]
            run = self.run
            self.events.append(
                StepCompleted(
                    run_id=run.id,
                    attempt=ordinal,
                    phase=run.phase,
                    last_seen=run.last_seen,
                    step=step,
                    project=run.project,
                )
            )

    def add_alerts(self, changed: Sequence[Alert]) -> None:
        """Add an event for each alert that opened, became more severe, was acknowledged or resolved."""
        run, open_kinds = self.run, tuple(alert.kind for alert in self.alerts.firing)
        self.events += [
            AlertChanged(run_id=run.id, run=run.name, project=run.project, alert=alert, open_kinds=open_kinds)
            for alert in changed
        ]

    def show_saved_alerts(self) -> None:
        """Replace the alerts in the events by the alerts as they were written, for example as silenced."""
        self.events = [
            replace(event, alert=self.alerts.as_saved(event.alert)) if isinstance(event, AlertChanged) else event
            for event in self.events
        ]

    def add_actions(self, reports: Sequence[ActionReport], *, attempt: int, step: int, rank: int, time: float) -> None:
        """Defer the actions that a record reports, and add an event for each."""
        run_id, now = self.run.id, self.now

        def write(repositories: Repositories) -> None:
            repositories.actions.add(run_id, reports, attempt=attempt, step=step, rank=rank, time=time)
            for report in reports:
                if report.request_id is not None:
                    record_answer(repositories, run_id, report, step=step, now=now)

        self.defer(write)
        ordinal = self._attempt(attempt)[0]
        self.events += [
            ActionReported(
                run_id=run_id, attempt=ordinal, step=step, rank=rank, time=time, report=report, project=self.run.project
            )
            for report in reports
        ]

    def add_run(self, repositories: Repositories, deadlines: Deadlines) -> None:
        """Add an event for the run in its written state."""
        row = repositories.run_views.find(self.run.id, now=self.now, deadlines=deadlines)
        if row is not None:
            self.events.append(RunChanged(run_id=self.run.id, view=row))

    def _attempt(self, attempt: int) -> tuple[int, int]:
        if attempt not in self._attempts:
            self._attempts = self.repositories.attempts.ordinals(self.run.id)
        return self._attempts[attempt]
