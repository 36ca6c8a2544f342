"""One batch's way: records into the store, ranks into steps, steps into detection, findings into alerts.

Runs inside a transaction that the writer opens and commits; knows neither HTTP nor threads. What it keeps in memory
can be dropped at any time and comes back from the store.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from monitor_server.alerts.liveness import LOST, is_clock_kind, silence
from monitor_server.errors import RecordError, TooManySignals, UnknownAlert
from monitor_server.ingest.validate import ValidBatch, ValidRecord
from monitor_server.projection.assembly import StepRecords
from monitor_server.projection.completion import Completion
from monitor_server.projection.events import Event
from monitor_server.projection.tracking import Tracker
from monitor_server.projection.work import Work
from monitor_server.settings import Settings
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert, Word
from monitor_server.store.repositories.records import StoredRecord
from monitor_server.store.repositories.runs import Run
from trainer_hooks import wire

__all__ = ["Outcome", "PersonsWord", "Pipeline"]

log = logging.getLogger(__name__)

MAX_CACHED_RUNS = 512
THINNED_EVERY = 32  # steps; looking at each would cost more than the little that waits


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Answer]):
    """What a piece of work came to: the answer, and the events to tell, both only after the commit."""

    answer: Answer
    events: list[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonsWord:
    """That a person knows of an alert: who, and what they say."""

    run_id: str
    alert_id: str
    by: str
    note: str


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
        self._completion = Completion(tracker, settings=settings, is_watched=is_watched)
        self._settings = settings
        self._clock = clock
        self._positions: dict[str, dict[str, int]] = {}

    def forget(self, run_id: str | None = None) -> None:
        """Drop what is in memory of a run, or of all: the store did not take it."""
        self._tracker.forget(run_id)
        if run_id is None:
            self._positions.clear()
        else:
            self._positions.pop(run_id, None)

    def ingest(self, repositories: Repositories, intake: ValidBatch) -> Outcome[wire.Receipt]:
        """Take one batch."""
        batch, now = intake.batch, self._clock()
        run, is_new = self._enter(repositories, intake, now=now)
        work = Work.on(run, repositories, now=now)
        entries, rejected = self._keep(work, intake)
        accepted, refused_responses = len(entries), self._keep_responses(work, intake, entries)
        self._completion.run(work, self._positions_of(work))
        ends = batch.end is not None and batch.attempt == run.attempt and run.ended != batch.end
        if ends:
            run.ended = batch.end
        work.save()
        if is_new or ends:
            self._announce(work)
        receipt = wire.Receipt(
            run_id=run.id,
            accepted=accepted,
            duplicates=len(batch.records) - accepted - len(rejected),
            refused_responses=refused_responses,
            newest_attempt=run.attempt if batch.attempt < run.attempt else None,
            rejected=rejected,
            **_verdict(work, batch.attempt),
        )
        return Outcome(answer=receipt, events=work.events)

    def acknowledge(self, repositories: Repositories, word: PersonsWord) -> Outcome[None]:
        """Take a person's word on an alert: keep it, tell the detectors, and give up a run whose trainer is lost."""
        now = self._clock()
        run, alert = repositories.runs.find(word.run_id), repositories.alerts.find(word.alert_id)
        if run is None or alert is None:
            raise UnknownAlert(f"no alert has the id {word.alert_id!r}; GET /api/v1/alerts lists them")
        work = Work.on(run, repositories, now=now)
        known = work.alerts.acknowledge(alert, by=word.by, note=word.note, now=now)
        seen = None if is_clock_kind(alert.kind) else self._tracker.acknowledge(work, alert.kind)
        if seen is not None:
            attempt, step = seen
            journaled = Word(
                alert_id=alert.id, kind=alert.kind, attempt=attempt, step=step, at=now, by=word.by, note=word.note
            )
            repositories.alerts.journal(run.id, journaled)
        if alert.kind == LOST and alert.state == "firing":
            run.given_up_at = now
        work.save()
        work.tell_alerts([known])
        self._announce(work)
        return Outcome(answer=None, events=work.events)

    def tick(self, repositories: Repositories) -> list[Event]:
        """Complete the steps whose deadline has passed, and tell whose status the clock has changed."""
        now = self._clock()
        events: list[Event] = []
        overdue = repositories.waiting.overdue(before=now - self._settings.step_deadline_seconds)
        changed = repositories.runs.changed(now=now, deadlines=self._settings.deadlines)
        for run_id in dict.fromkeys([*overdue, *changed]):
            run = repositories.runs.find(run_id)
            if run is None:
                continue
            work = Work.on(run, repositories, now=now)
            self._completion.run(work, self._positions_of(work))
            work.save()
            self._announce(work)
            events += work.events
        return events

    def _enter(self, repositories: Repositories, intake: ValidBatch, *, now: float) -> tuple[Run, bool]:
        """Make the run known, or newer; say whether it is new."""
        batch, run_id = intake.batch, intake.run_id
        run = repositories.runs.find(run_id)
        is_new = run is None
        if run is None:
            run = Run(
                id=run_id,
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
        elif batch.attempt < run.attempt and batch.attempt not in repositories.runs.attempts(run.id):
            log.warning(
                "attempt %d of run %r is heard for the first time and lower than the newest, %d: its steps are stored, "
                "and no detector sees them; a later launch must have a higher RLVITALS_ATTEMPT",
                batch.attempt,
                run.name,
                run.attempt,
            )
        run.last_seen = now
        world_size = repositories.runs.enter_attempt(run.id, batch.attempt, world_size=batch.world_size, now=now)
        if batch.attempt == run.attempt:
            run.world_size, run.capability = world_size, batch.capability
            run.source = batch.source or run.source
            if batch.config:
                run.config = intake.config
            # A hello of rank 0's process, which has started again; what a dead one has left may come late.
            is_hello = batch.config is not None and not batch.records and batch.end is None
            if is_hello and run.ended is not None:
                run.ended, run.last_step_at = None, now
        return run, is_new

    def _keep(self, work: Work, intake: ValidBatch) -> tuple[list[ValidRecord], list[wire.Rejection]]:
        """Store the records that are new and fit; give them, and which were refused."""
        batch, records = intake.batch, work.repositories.records
        seen = records.seen(work.run.id, batch.attempt, batch.rank, [entry.seq for entry in intake.records])
        new: dict[int, ValidRecord] = {}
        for entry in intake.records:
            if entry.seq not in seen:
                new.setdefault(entry.seq, entry)
        held = records.of_steps(work.run.id, batch.attempt, {entry.record.step for entry in new.values()})
        work.steps = {(batch.attempt, step): StepRecords.of(stored) for step, stored in held.items()}
        rejected = list(intake.rejected)
        kept: list[ValidRecord] = []
        for entry in new.values():
            step = entry.record.step
            try:
                self._reserve(work, entry.record)
                work.steps.setdefault((batch.attempt, step), StepRecords()).add(batch.rank, entry.seq, entry.record)
            except RecordError as error:
                rejected.append(wire.Rejection(index=entry.index, error=type(error).__name__, detail=str(error)))
            else:
                kept.append(entry)
                if entry.record.actions:
                    work.note_actions(
                        entry.record.actions,
                        attempt=batch.attempt,
                        step=step,
                        rank=batch.rank,
                        time=work.now if entry.record.time is None else entry.record.time,
                    )
        stored = [StoredRecord(rank=batch.rank, seq=e.seq, step=e.record.step, body=e.body) for e in kept]
        records.add(work.run.id, batch.attempt, stored)
        return kept, sorted(rejected, key=lambda rejection: rejection.index)

    def _keep_responses(self, work: Work, intake: ValidBatch, entries: Sequence[ValidRecord]) -> int:
        """Store the sampled responses of records that were kept, thin old ones, and give how many were refused."""
        batch, settings, run = intake.batch, self._settings, work.run
        refused = sum(entry.refused_responses for entry in entries)
        told = [entry for entry in entries if entry.responses]
        for entry in told:
            refused += work.repositories.responses.add(
                run.id,
                attempt=batch.attempt,
                step=entry.record.step,
                rank=batch.rank,
                new=entry.responses,
                max_per_step=settings.max_responses,
            )
        newest = max((entry.record.step for entry in told), default=0)
        if newest // THINNED_EVERY > (run.last_step or 0) // THINNED_EVERY:
            work.repositories.responses.thin(run.id, newest_step=newest, whole_steps=settings.response_steps)
        return refused

    def _reserve(self, work: Work, record: wire.Record) -> None:
        """Give new signals a place, or refuse the record if the run would have too many."""
        positions = self._positions_of(work)
        new = [name for name in (*record.scalars, *record.summaries) if name not in positions]
        if not new:
            return
        start = len(positions)
        if start + len(new) > self._settings.max_signals:
            raise TooManySignals(
                f"a run must have at most {self._settings.max_signals} signals, got {len(new)} new ones such as "
                f"{new[0]!r} beside {start}; send fewer names or raise RLVITALS_MAX_SIGNALS"
            )
        work.repositories.steps.add_signals(work.run.id, new, start=start)
        positions.update({name: start + place for place, name in enumerate(new)})

    def _positions_of(self, work: Work) -> dict[str, int]:
        positions = self._positions.get(work.run.id)
        if positions is None:
            names = work.repositories.steps.signals(work.run.id)
            if len(self._positions) >= MAX_CACHED_RUNS:
                self._positions.clear()
            positions = self._positions[work.run.id] = {name: place for place, name in enumerate(names)}
        return positions

    def _announce(self, work: Work) -> None:
        """Tell the run's status if it is another, and open or resolve what the clock finds."""
        run, deadlines = work.run, self._settings.deadlines
        status = work.repositories.runs.status(run.id, now=work.now, deadlines=deadlines)
        if status == run.announced:
            return
        run.announced = status
        step = run.last_step or 0
        findings = silence(
            status,
            step=step,
            silent_seconds=work.now - run.last_step_at,
            stall_seconds=run.stall_seconds,
            lost_factor=deadlines.lost_factor,
        )
        changed = work.alerts.reconcile(findings, phase=run.phase, step=step, now=work.now, concerns=is_clock_kind)
        work.save()
        work.tell_alerts(changed)
        work.tell_run(deadlines)


def _verdict(work: Work, attempt: int) -> dict[str, Any]:
    """Give what a receipt says of the trainer's own attempt: the phase at its newest step, and alerts up to there.

    What fires since a later step is of an attempt that has ended, and of weights that this one has left behind. What
    the clock finds is that a trainer was not heard, and here it speaks.
    """
    run = work.run
    if run.last_attempt != attempt or run.last_step is None:
        return {}
    told = [a for a in work.alerts.firing if not is_clock_kind(a.kind) and a.severity_step <= run.last_step]
    return {"phase": run.phase, "judged_step": run.last_step, "alerts": [_notice(alert) for alert in told]}


def _notice(alert: Alert) -> wire.AlertNotice:
    fields = {"kind": alert.kind, "severity": alert.severity, "summary": alert.summary}
    return msgspec.convert(fields | {"id": alert.id, "opened_step": alert.opened_step}, wire.AlertNotice)
