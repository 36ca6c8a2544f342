"""One batch's way: records into the store, ranks into steps, steps into detection, findings into alerts.

Runs inside a transaction that the writer opens and commits; knows neither HTTP nor threads. What it keeps in memory
can be dropped at any time and comes back from the store.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from monitor_server.alerts.lifecycle import reconcile
from monitor_server.alerts.liveness import is_clock_kind, silence
from monitor_server.answers import SPARKLINE_SIGNAL, StepEvent, alert_item, run_item
from monitor_server.assembly import StepRecords
from monitor_server.detection.protocol import Phase
from monitor_server.errors import RecordError, TooManySignals
from monitor_server.intake import Entry, Intake
from monitor_server.settings import Settings
from monitor_server.store.alerts import Alert
from monitor_server.store.records import StoredRecord
from monitor_server.store.repositories import Repositories
from monitor_server.store.runs import Run
from monitor_server.store.steps import Step
from monitor_server.stream import Event
from monitor_server.tracking import Tracker
from trainer_hooks import wire

__all__ = ["Outcome", "Pipeline"]

MAX_CACHED_RUNS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a batch came to: the answer, and the events to tell, both only after the commit."""

    receipt: wire.Receipt
    events: list[Event]


@dataclass(slots=True, kw_only=True)
class _Work:
    """A batch, or a tick, while it works on one run."""

    repositories: Repositories
    run: Run
    now: float
    attempts: dict[int, tuple[int, int]]
    steps: dict[tuple[int, int], StepRecords] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


class Pipeline:
    """Takes batches and ticks, one at a time."""

    def __init__(
        self,
        tracker: Tracker,
        *,
        settings: Settings,
        clock: Callable[[], float],
        is_watched: Callable[[], bool] = lambda: True,
    ) -> None:
        self._tracker = tracker
        self._settings = settings
        self._clock = clock
        self._is_watched = is_watched
        self._positions: dict[str, dict[str, int]] = {}

    def forget(self, run_id: str | None = None) -> None:
        """Drop what is in memory of a run, or of all: the store did not take it."""
        self._tracker.forget(run_id)
        if run_id is None:
            self._positions.clear()
        else:
            self._positions.pop(run_id, None)

    def ingest(self, repositories: Repositories, intake: Intake) -> Outcome:
        """Take one batch."""
        batch, now = intake.batch, self._clock()
        run, is_new = self._enter(repositories, intake, now=now)
        work = _Work(repositories=repositories, run=run, now=now, attempts=repositories.runs.attempts(run.id))
        accepted, rejected = self._keep(work, intake)
        self._complete(work)
        ends = batch.end is not None and batch.attempt == run.attempt and run.ended != batch.end
        if ends:
            run.ended = batch.end
        repositories.runs.save(run)
        if is_new or ends:
            self._announce(work)
        firing = [_notice(alert) for alert in repositories.alerts.firing(run.id)]
        duplicates = len(batch.records) - accepted - len(rejected)
        receipt = wire.Receipt(
            run_id=run.id, accepted=accepted, duplicates=duplicates, rejected=rejected, phase=run.phase, alerts=firing
        )
        return Outcome(receipt=receipt, events=work.events)

    def tick(self, repositories: Repositories) -> list[Event]:
        """Complete the steps whose deadline has passed, and tell whose status the clock has changed."""
        now = self._clock()
        events: list[Event] = []
        overdue = repositories.waiting.overdue(before=now - self._settings.step_deadline_seconds)
        changed = repositories.runs.changed(now=now, lost_factor=self._settings.lost_factor)
        for run_id in dict.fromkeys([*overdue, *(run_id for run_id, _ in changed)]):
            run = repositories.runs.find(run_id)
            if run is None:
                continue
            work = _Work(repositories=repositories, run=run, now=now, attempts=repositories.runs.attempts(run_id))
            self._complete(work)
            repositories.runs.save(run)
            self._announce(work)
            events += work.events
        return events

    def _enter(self, repositories: Repositories, intake: Intake, *, now: float) -> tuple[Run, bool]:
        """Make the run known, or newer."""
        batch = intake.batch
        run = repositories.runs.find(intake.run_id)
        is_new = run is None
        if run is None:
            run = Run(
                id=intake.run_id,
                project=batch.project,
                name=batch.run,
                source=batch.source,
                capability=batch.capability,
                world_size=batch.world_size,
                attempt=batch.attempt,
                started_at=now,
                last_seen=now,
                last_step_at=now,
                stall_seconds=self._settings.stall_minimum_seconds,
            )
            repositories.runs.add(run)
        elif batch.attempt > run.attempt:
            run.attempt, run.ended, run.last_step_at = batch.attempt, None, now
        run.last_seen = now
        world_size = repositories.runs.enter_attempt(run.id, batch.attempt, world_size=batch.world_size, now=now)
        if batch.attempt == run.attempt:
            run.world_size, run.capability = world_size, batch.capability
            run.source = batch.source or run.source
            if batch.config is not None:
                run.config = msgspec.msgpack.encode(batch.config)
        return run, is_new

    def _keep(self, work: _Work, intake: Intake) -> tuple[int, list[wire.Rejection]]:
        """Store the records that are new and fit; give how many, and which were refused."""
        batch, repositories = intake.batch, work.repositories
        seen = repositories.records.seen(work.run.id, batch.attempt, batch.rank, [e.seq for e in intake.entries])
        new: dict[int, Entry] = {}
        for entry in intake.entries:
            if entry.seq not in seen:
                new.setdefault(entry.seq, entry)
        held = repositories.records.of_steps(work.run.id, batch.attempt, {e.record.step for e in new.values()})
        work.steps = {(batch.attempt, step): StepRecords.of(records) for step, records in held.items()}
        rejected = list(intake.rejected)
        kept: list[StoredRecord] = []
        for entry in new.values():
            step = entry.record.step
            try:
                self._reserve(work, entry.record)
                work.steps.setdefault((batch.attempt, step), StepRecords()).add(batch.rank, entry.seq, entry.record)
            except RecordError as error:
                rejected.append(wire.Rejection(index=entry.index, error=type(error).__name__, detail=str(error)))
            else:
                kept.append(StoredRecord(rank=batch.rank, seq=entry.seq, step=step, body=entry.body))
        repositories.records.add(work.run.id, batch.attempt, kept)
        return len(kept), sorted(rejected, key=lambda rejection: rejection.index)

    def _reserve(self, work: _Work, record: wire.Record) -> None:
        """Give new signals a place, or refuse the record if the run would have too many."""
        positions = self._signal_positions(work)
        new = [name for name in (*record.scalars, *record.summaries) if name not in positions]
        if not new:
            return
        if len(positions) + len(new) > self._settings.max_signals:
            raise TooManySignals(
                f"a run must have at most {self._settings.max_signals} signals, "
                f"got {len(new)} new ones such as {new[0]!r} beside {len(positions)}; raise RLVITALS_MAX_SIGNALS"
            )
        start = len(positions)
        work.repositories.steps.add_signals(work.run.id, new, start=start)
        positions.update({name: start + place for place, name in enumerate(new)})

    def _signal_positions(self, work: _Work) -> dict[str, int]:
        positions = self._positions.get(work.run.id)
        if positions is None:
            names = work.repositories.steps.signals(work.run.id)
            if len(self._positions) >= MAX_CACHED_RUNS:
                self._positions.clear()
            positions = self._positions[work.run.id] = {name: place for place, name in enumerate(names)}
        return positions

    def _complete(self, work: _Work) -> None:
        """Merge the steps that are complete, in order, and take them through detection."""
        repositories, run = work.repositories, work.run
        touched: dict[int, set[int]] = {}
        for attempt, step in work.steps:
            touched.setdefault(attempt, set()).add(step)
        late = {
            (attempt, step)
            for attempt, steps in touched.items()
            for step in repositories.steps.known(run.id, attempt, steps)
        }
        waiting = {(attempt, step): since for attempt, step, since in repositories.waiting.of_run(run.id)}
        pending = dict.fromkeys(work.steps.keys() - late - waiting.keys(), work.now) | waiting
        ready: list[tuple[int, int]] = []
        for key in sorted(pending):
            if not self._is_ready(work, key, since=pending[key]):
                break
            ready.append(key)
        self._write(work, sorted(late), replace=True)
        complete = self._write(work, ready, replace=False)
        repositories.waiting.change(
            run.id,
            add=pending.keys() - waiting.keys() - set(ready),
            remove=waiting.keys() & set(ready),
            now=work.now,
        )
        if complete:
            self._advance(work, complete)

    def _is_ready(self, work: _Work, key: tuple[int, int], *, since: float) -> bool:
        attempt, step = key
        if key not in work.steps:
            held = work.repositories.records.of_steps(work.run.id, attempt, [step])
            work.steps[key] = StepRecords.of(held.get(step, []))
        _, world_size = work.attempts[attempt]
        return (
            work.steps[key].ranks >= world_size
            or attempt < work.run.attempt  # its processes are gone
            or work.now - since >= self._settings.step_deadline_seconds
        )

    def _write(self, work: _Work, keys: Iterable[tuple[int, int]], *, replace: bool) -> list[Step]:
        steps = [work.steps[attempt, step].merged(step=step, attempt=attempt, now=work.now) for attempt, step in keys]
        if steps:
            positions = self._signal_positions(work)
            work.repositories.steps.put(work.run.id, steps, replace=replace, positions=positions)
        return steps

    def _advance(self, work: _Work, steps: list[Step]) -> None:
        """Move the run on to its newest step, and detect."""
        run = work.run
        for step in steps:
            if step.attempt == run.attempt:
                run.last_step, run.last_step_at = step.step, work.now
                run.recent.add(step=step.step, time=step.time, reward=step.signals.get(SPARKLINE_SIGNAL))
        run.step_seconds = run.recent.step_seconds()
        run.stall_seconds = max(
            self._settings.stall_minimum_seconds, self._settings.stall_factor * (run.step_seconds or 0.0)
        )
        changed = self._tracker.observe(work.repositories, run, steps, now=work.now)
        if not self._is_watched():
            return
        for step in steps:
            event = StepEvent(
                run_id=run.id,
                attempt=work.attempts[step.attempt][0],
                step=step.step,
                phase=Phase(run.phase),
                signals=dict(step.signals),
            )
            work.events.append(Event(kind="step", run_id=run.id, data=event.model_dump_json()))
        self._tell(work, changed)

    def _announce(self, work: _Work) -> None:
        """Tell the run's status, and open or resolve what the clock finds."""
        run, settings = work.run, self._settings
        row = work.repositories.runs.view(run.id, now=work.now, lost_factor=settings.lost_factor)
        if row is None or row["status"] == run.announced:
            return
        run.announced = row["status"]
        findings = silence(
            run.announced,
            step=run.last_step or 0,
            silent_seconds=work.now - run.last_step_at,
            stall_seconds=run.stall_seconds,
            lost_factor=settings.lost_factor,
        )
        changed = reconcile(
            work.repositories.alerts,
            findings,
            run_id=run.id,
            phase=run.phase,
            step=run.last_step or 0,
            now=work.now,
            concerns=is_clock_kind,
        )
        work.repositories.runs.save(run)
        self._tell(work, changed)
        row = work.repositories.runs.view(run.id, now=work.now, lost_factor=settings.lost_factor)
        if row is not None:
            work.events.append(Event(kind="run", run_id=run.id, data=run_item(row).model_dump_json()))

    def _tell(self, work: _Work, changed: Iterable[Alert]) -> None:
        for alert in changed:
            row = {field: getattr(alert, field) for field in alert.__slots__}
            item = alert_item(row | {"run": work.run.name, "project": work.run.project})
            work.events.append(Event(kind="alert", run_id=work.run.id, data=item.model_dump_json()))


def _notice(alert: Alert) -> wire.AlertNotice:
    fields = {"kind": alert.kind, "severity": alert.severity, "summary": alert.summary}
    return msgspec.convert(fields | {"id": alert.id, "opened_step": alert.opened_step}, wire.AlertNotice)
