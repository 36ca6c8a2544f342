"""Deadlines, resets, thinning and deletion at random moments of a projection leave the steps that the log has."""

import random
import uuid
from functools import partial
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.detection.protocol import SEEN_SHARE
from monitor_server.ingest import reset
from monitor_server.ingest.reset import reset_run
from monitor_server.settings import Settings
from monitor_server.step_processing.steps.rank_merging import merge_records, step_bounds
from monitor_server.store.repositories.retention import step_thinning
from tests.monitor_server.simulated_collectors import (
    SimulatedCollector,
    SimulatedTrainer,
    project_some,
    project_to_end,
    random_examples,
)
from trainer_hooks import wire

SETTINGS = Settings(step_deadline_seconds=60, stall_minimum_seconds=1e9, max_waiting_steps=20)
MANY = 10_000


BOUNDS = step_bounds(SETTINGS)


@pytest.fixture
def small_removals(monkeypatch):
    """Let some rows fill what is usually removed at once, or kept around alerts."""
    monkeypatch.setattr(reset, "ROWS_REMOVED_AT_ONCE", 4)
    monkeypatch.setattr(step_thinning, "STEPS_PER_SLICE", 4)
    for name in ("KEPT_ALERTS", "KEPT_BEFORE", "KEPT_AFTER"):
        monkeypatch.setattr(step_thinning, name, 1)


class MaintainedRun:
    """A run of two collectors, to which everything happens that operators and time can do."""

    def __init__(self, seed, stores, engine, clock):
        self.draw, self.clock = random.Random(seed), clock  # noqa: S311 - synthetic telemetry
        self.collectors = [SimulatedCollector(store, engine, clock, SETTINGS) for store in stores]
        self.store = stores[0]
        self.trainer = SimulatedTrainer(self.draw)
        self.name = uuid.uuid4().hex
        self.run_id = wire.run_id("default", self.name)
        self.stored = set()  # attempt, rank and sequence number of each record
        self.thinned = set()  # attempt and step
        self.frozen = {}  # the signals of steps of which a record has lost its body; None if they are not known
        self.is_between = False

    def run(self, turns):
        """Do random things, then everything that is left to do."""
        self.trainer.launch()
        self.trainer.log_steps()
        for _ in range(turns):
            chance = self.draw.random()
            if chance < 0.05:
                self.trainer.launch()
            elif chance < 0.3 or not self.trainer.records:
                self.trainer.log_steps()
            elif chance < 0.6:
                self.send()
            elif chance < 0.9:
                between = [self.send, *[partial(self.maintain, is_between=True)] * 2]
                project_some(self.draw, self.collectors, self.run_id, self.clock, interruptions=between)
            else:
                self.maintain()
        self.settle()
        while self.remove_some():
            pass
        self.deliver(self.collectors[0], [(*key, records) for key, records in self.trainer.records.items() if records])
        self.settle()
        self.clock.now += 60
        self.settle()

    def settle(self):
        """Project the run to its end."""
        if self.stored:
            project_to_end(self.collectors, self.run_id, self.clock)

    def send(self):
        """Send one batch or some in one commit to one of the collectors, which may crash."""
        draw = self.draw
        collector = draw.choice(self.collectors)
        parts = [self.trainer.some_batch() for _ in range(draw.choice((1, 1, 2, 4)))]
        self.deliver(collector, parts, crash=draw.choice((None, None, "before the commit", "after the commit")))

    def deliver(self, collector, parts, **options):
        """Append batches to the run; what is acknowledged as new must be new."""
        batches = [self.trainer.batch(*part, run=self.name, settings=SETTINGS, now=self.clock.now) for part in parts]
        appended = collector.append(batches, **options)
        if appended is None:
            return
        for (attempt, rank, records), result in zip(parts, appended, strict=True):
            new = {(attempt, rank, record["seq"]) for record in records} - self.stored
            assert (result.accepted, result.duplicates) == (len(new), len(records) - len(new))
            self.stored |= new

    def maintain(self, *, is_between=False):
        """Do what an operator, retention or time does, perhaps between the snapshot and the commit of a slice."""
        self.is_between = is_between
        actions = [self.pass_deadline, self.thin_steps, self.thin_records, *[self.reset, self.remove_some] * 2]
        self.draw.choice([self.delete] if self.draw.random() < 0.1 else actions)()

    def pass_deadline(self):
        """Let the deadline of all steps that wait pass."""
        self.clock.now += 60

    def reset(self):
        """Reset the run to one of its newest attempts, to another number of ranks, or only to try it again."""
        draw, options = self.draw, {}
        with self.store.write() as repositories:
            if not repositories.runs.exists(self.run_id):
                return
            numbers = list(repositories.attempts.ordinals(self.run_id))
            if draw.random() < 0.8:
                options["attempt"] = max(1, len(numbers) - draw.choice((0, 1, 1, 2)))
            if draw.random() < 0.3:
                options["world_size"] = draw.choice((1, 2, 3))
            reset_run(repositories, self.run_id, now=self.clock.now, **options)
        self.forget_attempts(above=numbers[options.get("attempt", len(numbers)) - 1])

    def forget_attempts(self, above):
        """Expect nothing of later attempts any more, whose records are removed."""
        self.stored = {key for key in self.stored if key[0] <= above}
        self.thinned = {key for key in self.thinned if key[0] <= above}
        self.frozen = {key: value for key, value in self.frozen.items() if key[0] <= above}

    def delete(self):
        """Delete the run, which begins anew once its rows are removed."""
        with self.store.write() as repositories:
            repositories.deletion.begin_deletion([self.run_id], now=self.clock.now)
        self.forget_attempts(above=-1)
        self.clock.now += 1

    def remove_some(self):
        """Remove some rows of a deleted run or of removed attempts, and return whether there were any."""
        with self.store.write() as repositories:
            removed = repositories.deletion.remove_rows(self.run_id, limit=4)
            return removed or repositories.deletion.remove_attempt_rows(self.run_id, limit=4)

    def thin_steps(self):
        """Thin a slice of the steps, and note which ones are gone."""
        with self.store.write() as repositories:
            before = self.rows(repositories)
            repositories.step_thinning.thin_steps(self.run_id, most=self.draw.choice((2, 4, 8)))
            gone = before.keys() - self.rows(repositories).keys()
        self.thinned |= gone

    def thin_records(self):
        """Empty some records. Their steps stay as they are, unless a slice under way has read the records before."""
        kept, limit = self.draw.choice((0, 2, 6)), self.draw.choice((1, 4, 20))
        with self.store.write() as repositories:
            if not repositories.runs.exists(self.run_id):
                return
            repositories.record_thinning.thin_records(self.run_id, kept_steps=kept, limit=limit)
            rows = self.rows(repositories)
            numbers = {step for _, step in [*rows, *self.thinned]}
            for attempt in repositories.attempts.ordinals(self.run_id):
                for step, stored in repositories.records.of_steps(self.run_id, attempt, numbers, bounds=BOUNDS):
                    key = attempt, step
                    if any(not record.body for record in stored.records):
                        is_unknown = self.is_between or key in self.thinned
                        self.frozen.setdefault(key, None if is_unknown else rows[key])

    def rows(self, repositories):
        """Return the signals of each stored step of each attempt, except the share of its ranks."""
        return {
            (attempt, step.step): {name: value for name, value in step.signals.items() if name != SEEN_SHARE}
            for attempt in repositories.attempts.ordinals(self.run_id)
            for step in repositories.steps.of_attempt(self.run_id, attempt, from_step=0, limit=MANY)
        }

    def expected(self, rows):
        """Return what must be stored: each step merged of all its records, unless retention has removed some of it.

        A thinned step may be absent. If a record has come since, the step is there, of all records that have a body.
        """
        found = {}
        sent = {(*key, record["seq"]): record for key, records in self.trainer.records.items() for record in records}
        by_step = {}
        for attempt, rank, seq in self.stored:
            record = sent[attempt, rank, seq]
            by_step.setdefault((attempt, record["step"]), []).append((rank, seq, record))
        for key, records in by_step.items():
            if key in self.thinned and (key in self.frozen or key not in rows):
                found |= {key: rows[key]} if key in rows else {}
            elif key in self.frozen:
                found[key] = self.frozen[key] or rows[key]
            else:
                ordered = sorted(records, key=lambda each: (-each[0], each[1]))
                decoded = [(rank, wire.decode_record(wire.encode(record))) for rank, _, record in ordered]
                found[key] = dict(merge_records(decoded, step=key[1], attempt=key[0], now=0.0).signals)
        return found

    def check(self):
        """Compare all that is stored of the run with what its trainer has sent."""
        if not self.stored:  # it was deleted at the end
            return
        with self.store.read() as repositories:
            run = repositories.runs.find(self.run_id)
            records, _ = repositories.records.after(self.run_id, 0, limit=MANY, max_bytes=10**9)
            assert sorted((each.attempt, each.rank, each.seq) for each in records) == sorted(self.stored)
            rows = self.rows(repositories)
            assert rows == self.expected(rows)
            assert (run.is_projected, repositories.waiting.count_of(self.run_id)) == (True, 0)
            seen = msgspec.msgpack.decode(repositories.detector_states.load(self.run_id).state)["seen"]
            assert seen == sorted(map(list, {tuple(each) for each in seen}))
            self._check_series(repositories)
            self._check_phases(repositories, run.phase)
            alerts = repositories.alerts.page(limit=MANY, run_id=self.run_id)
            open_kinds = [alert["kind"] for alert in alerts if alert["state"] != "resolved"]
            assert len(set(open_kinds)) == len(open_kinds)

    def _check_series(self, repositories):
        """Compacted values are those of the steps."""
        names = repositories.steps.signals(self.run_id)
        steps = repositories.steps.page(self.run_id, from_step=0, limit=MANY)
        held = {
            each.signal: dict(zip(each.steps.tolist(), each.values.tolist(), strict=True))
            for each in repositories.series.read(self.run_id, names)
        }
        assert held == {
            name: {step.step: step.signals[name] for step in steps if name in step.signals} for name in names
        }

    def _check_phases(self, repositories, phase):
        """Phases follow each other without a gap, and the last one is the current one."""
        phases = repositories.phases.all(self.run_id)
        assert (phases[-1][0], phases[-1][2]) == (phase, None)
        for (_, begin, end), (_, following, _) in pairwise(phases):
            assert begin <= end == following - 1


@random_examples(2)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.usefixtures("small_parts", "small_removals")
def test_maintenance_at_random_moments_leaves_every_step_as_the_log_has_it(two_stores, scripted, clock, seed):
    """Every acknowledged record is there once; steps, phases and what detection has seen are in order."""
    maintained = MaintainedRun(seed, two_stores, scripted, clock)
    maintained.run(60)
    maintained.check()
