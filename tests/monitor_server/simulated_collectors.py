"""Trainers that send random batches, and collectors without threads, for tests in which a seed decides what happens."""

import os
import random
import uuid
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, settings

from monitor_server.errors import DeletionUnderWay, ProjectedElsewhere, Unavailable
from monitor_server.ingest.record_log.log_append import LogAppender, LogMoved
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.step_processing import log_entries
from monitor_server.step_processing.ownership import OWNER_SECONDS
from monitor_server.step_processing.run_memory import compacted_runs
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps import waiting
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.store.database import Store
from monitor_server.store.repositories.series import compaction
from tests.monitor_server.interrupted_stores import Between, crashing
from trainer_hooks import wire

__all__ = [
    "SimulatedCollector",
    "SimulatedTrainer",
    "project_some",
    "project_to_end",
    "random_examples",
    "read_fields",
    "small_parts",
    "two_stores",
]

# An example takes a second, so that a search for a smaller one would take minutes.
NOT_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]


def random_examples(few):
    """Return the settings of a random test that tries a few examples, or as many as `RANDOM_EXAMPLES` says."""
    return settings(
        max_examples=int(os.environ.get("RANDOM_EXAMPLES", few)),
        phases=NOT_SHRINKING,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


@pytest.fixture
def small_parts(monkeypatch):
    """Let some steps fill what usually takes hundreds: chunks, slices, and what is read or kept of waiting steps."""
    monkeypatch.setattr(compaction, "CHUNK_STEPS", 6)
    monkeypatch.setattr(compaction, "TAIL_STEPS", 3)
    monkeypatch.setattr(compacted_runs, "COMPACTION_STEPS", 2)
    monkeypatch.setattr(log_entries, "RECORDS_PER_SLICE", 5)
    monkeypatch.setattr(waiting, "FIRST_STEPS", 3)
    monkeypatch.setattr(waiting, "RECORDS_READ_AHEAD", 2)
    monkeypatch.setattr(waiting, "MAX_KEPT_STEPS", 5)


class SimulatedCollector:
    """What one process does, without its threads; a crash loses what it has in memory."""

    def __init__(self, store, engine, clock, settings, **options):
        self.store, self._engine, self._clock, self._settings = store, engine, clock, settings
        self._options = options  # further ones of a projection
        self.restart()

    def restart(self):
        """Begin with nothing in memory."""
        self.log = LogAppender(settings=self._settings, clock=self._clock)
        self.projection = Projection(
            Tracker(self._engine),
            settings=self._settings,
            clock=self._clock,
            owner=uuid.uuid4().hex if self.store.is_shared else None,
            **self._options,
        )

    def append(self, batches, *, crash=None, before_flush=lambda: None):
        """Append batches in one commit as the writer does; return None if they were not committed."""
        while True:
            try:
                with self.store.write() as repositories:
                    repositories.limit_lock_waits(0.05)
                    appended = [self.log.append_deferred(repositories, batch) for batch in batches]
                    before_flush, flush = (lambda: None), before_flush
                    flush()
                    self.log.flush(repositories)
                    if crash == "before the commit":
                        _crash()
            except LogMoved:
                self.log.forget()
            except (ZeroDivisionError, Unavailable, DeletionUnderWay):
                self.log.forget()
                return None
            else:
                if crash == "after the commit":
                    self.restart()
                return appended

    def project(self, run_id, *, store=None, is_smallest=False):
        """Project a slice as the projector's thread does; return whether there is more, None if nothing was done."""
        try:
            result = self.projection.project(store or self.store, run_id, is_smallest=is_smallest)
        except (ProjectedElsewhere, ZeroDivisionError):  # the second one is a crash before the commit
            self.projection.forget(run_id)
            return True
        return None if result is None else result.has_more


def _crash():
    raise ZeroDivisionError


@pytest.fixture
def two_stores(store, database_url):
    """Two collectors' connections to one database."""
    other = Store.open(database_url)
    yield store, other
    other.close()


def read_fields(fields, *, settings, now):
    """Return a batch of these fields as ingest reads it."""
    body = wire.encode({"schema_version": wire.SCHEMA_VERSION} | fields)
    return read_batch(body, media_type=wire.MSGPACK, encoding="", settings=settings, now=now)


def project_to_end(collectors, run_id, clock):
    """Project a run to its end, by the collector that owns it."""
    while False not in [collector.project(run_id) for collector in collectors]:
        clock.now += OWNER_SECONDS


def project_some(draw, collectors, run_id, clock, *, interruptions):
    """Project some slices, small or whole, by any collector, which may crash or begin with nothing in memory.

    Between the snapshot and the commit of a slice the other collector may do it first, or an interruption may happen.
    """
    for _ in range(draw.choice((1, 1, 2, 5))):
        collector, other = draw.sample(collectors, 2)
        chance, store = draw.random(), collector.store
        if chance < 0.1:
            store = crashing(store)
        elif chance < 0.4:
            store = Between(store, before=draw.choice([partial(other.project, run_id), *interruptions]))
        elif chance < 0.5:
            collector.restart()
        collector.project(run_id, store=store, is_smallest=draw.random() < 0.5)
        clock.now += draw.choice((0.0, 0.5, OWNER_SECONDS))


@dataclass
class SimulatedTrainer:
    """The batches that the ranks of a run send, with attempts that rewind; ranks may be late or never arrive."""

    draw: random.Random
    ascends: bool = False  # whether every rank reports every step, in ascending order
    attempt: int = 0
    ranks: int = 1
    next_step: dict[int, int] = field(default_factory=dict)
    records: dict[tuple[int, int], list[dict]] = field(default_factory=dict)  # by attempt and rank
    world_sizes: dict[int, int] = field(default_factory=dict)

    def launch(self):
        """Begin an attempt at an earlier step or a later one, perhaps with another number of ranks."""
        draw = self.draw
        self.attempt += draw.choice((1, 1, 5))
        self.ranks = draw.choice((1, 2, 2, 3))
        begin = max(0, max(self.next_step.values(), default=0) - draw.choice((0, 0, 1, 4, 12)))
        self.next_step = dict.fromkeys(range(self.ranks), begin)
        self.world_sizes[self.attempt] = self.ranks

    def log_steps(self):
        """Record some steps of a rank; some are left out, and some are corrected."""
        draw, rank = self.draw, self.draw.randrange(self.ranks)
        if rank == 2 and draw.random() < 0.5 and not self.ascends:
            return
        of_rank = self.records.setdefault((self.attempt, rank), [])
        for _ in range(draw.choice((1, 1, 2, 4, 9))):
            step = self.next_step[rank] + (draw.random() < 0.05 and not self.ascends)
            if draw.random() < 0.1 and not self.ascends:
                step = max(0, step - draw.randint(1, 5))
            else:
                self.next_step[rank] = step + 1
            scalars = {"warn": float(draw.random() < 0.3), "page": float(draw.random() < 0.1), "x": draw.random()}
            if draw.random() < 0.2:
                scalars |= {f"signal/{draw.randrange(4)}": draw.random()}
            if draw.random() < 0.2:
                scalars |= {"phase": float(draw.randrange(1, 5))}
            of_rank.append({"step": step, "seq": len(of_rank) * 2, "time": 1e6 + step, "scalars": scalars})

    def some_batch(self):
        """Return attempt, rank and records of a batch: mostly what comes next, or any part of what was sent."""
        draw = self.draw
        attempt, rank = draw.choice(sorted(key for key, records in self.records.items() if records))
        records = self.records[attempt, rank]
        begin = draw.randrange(len(records))
        return attempt, rank, records[begin : begin + draw.choice((1, 3, 8, 20))]

    def batch(self, attempt, rank, records, *, run, settings, now):
        """Return a batch as ingest reads it."""
        fields = {"attempt": attempt, "rank": rank, "world_size": self.world_sizes[attempt], "records": records}
        return read_fields({"run": run} | fields, settings=settings, now=now)
