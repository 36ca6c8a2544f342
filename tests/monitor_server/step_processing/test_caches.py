"""The memory of ingest and of the projector is bounded, and dropped entries are read from the store again."""

import gc
import json
import weakref

import pytest

from monitor_server.ingest.record_log import known_runs, step_shapes
from monitor_server.ingest.record_log.log_append import LogAppender
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from monitor_server.step_processing import ownership
from monitor_server.step_processing.run_context import RunContext
from monitor_server.step_processing.run_memory import compacted_runs, passed_alerts, signal_positions
from monitor_server.step_processing.slices import computation
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps import waiting
from monitor_server.step_processing.steps.detection import Tracker
from trainer_hooks import wire

BOUND = 3
RUNS = [f"r{number}" for number in range(5)]
RANKS = 2


@pytest.fixture
def log(clock, monkeypatch):
    """A log whose caches have three entries each."""
    monkeypatch.setattr(known_runs, "MAX_RUNS", BOUND)
    monkeypatch.setattr(known_runs, "MAX_RANKS", BOUND)
    monkeypatch.setattr(step_shapes, "MAX_STEPS", BOUND)
    return LogAppender(settings=Settings(), clock=clock)


@pytest.fixture
def projection(clock, scripted, monkeypatch):
    """A projection whose caches have three entries each."""
    for module in (compacted_runs, passed_alerts, signal_positions):
        monkeypatch.setattr(module, "MAX_CACHED_RUNS", BOUND)
    monkeypatch.setattr(ownership, "MAX_OWNED_RUNS", BOUND)
    monkeypatch.setattr(waiting, "MAX_CACHED_RUNS", BOUND)
    return Projection(Tracker(scripted, max_runs=BOUND), settings=Settings(), clock=clock, owner="this")


def _append(store, log, run, *, step, rank, now):
    record = {"step": step, "summaries": {"x": {"type": "moments", "count": 1, "sum": step}}}
    body = {"schema_version": 1, "run": run, "rank": rank, "world_size": RANKS, "records": [record]}
    valid = read_batch(json.dumps(body).encode(), media_type=wire.JSON, encoding="", settings=Settings(), now=now)
    with store.write() as repositories:
        appended = log.append_deferred(repositories, valid)
        log.flush(repositories)
    assert appended.accepted == 1


def test_caches_are_bounded_and_nothing_is_lost_with_what_they_drop(store, clock, log, projection):
    """Five runs of two ranks in turns, with room for three: each step is merged from both ranks and detected once."""
    largest, most_bytes = {}, 0
    for step in range(3):
        for rank in range(RANKS):
            for run in RUNS:
                _append(store, log, run, step=step, rank=rank, now=clock.now)
                assert projection.project(store, wire.run_id("default", run)) is not None
                most_bytes = max(most_bytes, projection.waiting_bytes)
                for name, size in (log.caches | projection.caches).items():
                    largest[name] = max(largest.get(name, 0), size())
    assert 0 < most_bytes <= waiting.MAX_CACHED_BYTES
    assert {name for name, size in largest.items() if size == BOUND} == {
        "log_runs", "log_steps", "signal_positions", "waiting_runs", "compacted_runs", "owned_runs", "detector_runs",
        "passed_alert_runs", "log_ranks",
    }  # fmt: skip
    assert max(largest.values()) == BOUND
    with store.read() as repositories:
        for run in RUNS:
            steps = repositories.steps.page(wire.run_id("default", run), from_step=0, limit=10)
            assert [(step.step, step.signals) for step in steps] == [(step, {"x": float(step)}) for step in range(3)]


def test_a_run_keeps_no_step_of_its_last_slice_in_memory(store, clock, log, projection, monkeypatch):
    """After a backlog a slice has megabytes of complete steps, which no bound of a cache counts."""

    class Watched(RunContext):
        """A context that can be watched, because it has no slots."""

    made = []

    def make(**fields):
        context = Watched(**fields)
        made.append(weakref.ref(context))
        return context

    monkeypatch.setattr(computation, "RunContext", make)
    for rank in range(RANKS):
        _append(store, log, "r", step=0, rank=rank, now=clock.now)
        assert projection.project(store, wire.run_id("default", "r")) is not None
    gc.collect()
    assert projection.caches["waiting_runs"]() == 1
    assert [reference() for reference in made] == [None] * RANKS


def test_the_ranks_that_are_remembered_are_bounded_for_all_runs_together(store, clock, log, monkeypatch):
    """Three runs of two ranks, with room for four ranks: a run that was dropped knows what it has stored."""
    monkeypatch.setattr(known_runs, "MAX_RANKS", 4)
    for step in range(3):
        for run in RUNS[:BOUND]:
            for rank in range(RANKS):
                _append(store, log, run, step=step, rank=rank, now=clock.now)
                assert 0 < log.caches["log_ranks"]() <= 4
    assert log.caches["log_runs"]() == 2


def test_the_ranks_of_waiting_steps_take_bounded_memory(store, clock, log, projection, monkeypatch):
    """Twenty steps wait for a rank; their records and ranks are dropped, and read again when the rank comes."""
    monkeypatch.setattr(waiting, "MAX_KEPT_BYTES", 5 * waiting.BYTES_A_RANK)
    for rank in range(RANKS):
        for step in range(20):
            _append(store, log, "r", step=step, rank=rank, now=clock.now)
            assert projection.project(store, wire.run_id("default", "r")) is not None
            assert projection.waiting_bytes <= 2 * waiting.MAX_KEPT_BYTES
    with store.read() as repositories:
        steps = repositories.steps.page(wire.run_id("default", "r"), from_step=0, limit=30)
    assert [(step.step, step.signals) for step in steps] == [(step, {"x": float(step)}) for step in range(20)]


def test_a_run_in_which_too_many_steps_wait_is_not_kept_in_memory(store, clock, log, projection, monkeypatch):
    """Two steps may be kept: with a third one all of them are read again, and each is complete with its last rank."""
    monkeypatch.setattr(waiting, "MAX_KEPT_STEPS", 2)
    held = []
    for rank in range(RANKS):
        for step in range(4):
            _append(store, log, "r", step=step, rank=rank, now=clock.now)
            assert projection.project(store, wire.run_id("default", "r")) is not None
            held.append(projection.caches["waiting_runs"]())
    assert held == [1, 1, 0, 0, 0, 1, 1, 1]
    with store.read() as repositories:
        steps = repositories.steps.page(wire.run_id("default", "r"), from_step=0, limit=9)
    assert [step.signals for step in steps] == [{"x": float(step)} for step in range(4)]
