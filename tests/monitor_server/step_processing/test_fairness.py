"""Runs take turns, however much one of them has to do; and two collectors in turns on one database lose nothing."""

import threading

import msgspec
import pytest

from monitor_server.step_processing.run_memory import compacted_runs
from monitor_server.store.repositories.series import compaction
from tests.live import PATIENCE_SECONDS, eventually
from tests.store_connections import count_chunks
from trainer_hooks import wire

STEPS = 3_000


@pytest.fixture
def live(start_collector, scripted):
    return start_collector(engine=scripted, verdict_wait_seconds=0)


def _last_step(live, run_id):
    return live.get(f"/runs/{run_id}")["last_step"]


def _many(name, **batch):
    records = [{"step": step, "scalars": {"a": 1.0}} for step in range(STEPS)]
    return {"run": name, "records": records} | batch


class Turns:
    """Which of the signals ``a`` and ``b`` each detected step had, in order; an ``a`` waits until the rest was sent."""

    def __init__(self):
        self.taken, self.is_sent = [], threading.Event()

    def engine(self, scripted):
        """Return an engine that notes its turns."""

        class Noting(scripted):
            def update(engine, observation):  # noqa: N805 - the outer one has the turns
                signal = "a" if "a" in observation.signals else "b"
                assert signal == "b" or self.is_sent.wait(PATIENCE_SECONDS)
                self.taken.append(signal)
                return super().update(observation)

        return Noting


@pytest.fixture
def turns():
    return Turns()


def test_a_large_batch_does_not_hold_up_other_runs(start_collector, scripted, turns):
    """A step of another run that comes later is complete before the large batch is."""
    live = start_collector(engine=turns.engine(scripted), verdict_wait_seconds=0)
    live.run(run="first", records=[{"step": 0, "scalars": {"a": 1.0}}])  # its slice lasts until the rest was sent
    large = live.run(**_many("large"))
    small = live.run(run="small", records=[{"step": 7, "scalars": {"b": 1.0}}])
    turns.is_sent.set()
    eventually(lambda: _last_step(live, large) == STEPS - 1)
    assert _last_step(live, small) == 7
    assert turns.taken.index("b") < STEPS


def test_what_is_compacted_while_a_run_goes_on_is_read_back(live, monkeypatch):
    """Hundreds of steps are mostly in chunks, and the series equals the sent values, also after a rewind into them."""
    monkeypatch.setattr(compaction, "CHUNK_STEPS", 100)
    monkeypatch.setattr(compaction, "TAIL_STEPS", 50)
    monkeypatch.setattr(compacted_runs, "COMPACTION_STEPS", 50)
    run_id = live.run(run="long", records=[{"step": step, "scalars": {"a": step / 7}} for step in range(400)])
    eventually(lambda: _last_step(live, run_id) == 399)
    live.send(run="long", attempt=2, records=[{"step": 100, "scalars": {"a": -1.0}}])
    eventually(lambda: _last_step(live, run_id) == 100)
    (series,) = live.get(f"/runs/{run_id}/series", max_points=1_000_000)["items"]
    assert series["steps"] == list(range(400))
    assert series["values"] == [-1.0 if step == 100 else step / 7 for step in range(400)]
    with live.app.state.collector.store.read():
        assert count_chunks(run_id) >= 1


def test_thousands_of_waiting_steps_are_completed_in_slices(start_collector, scripted, turns):
    """A new attempt completes the steps of the old one, and a step of another run does not wait for all of them."""
    live = start_collector(engine=turns.engine(scripted), verdict_wait_seconds=0)
    large = live.run(**_many("large", world_size=2))
    other = live.run(run="other", records=[{"step": 1, "scalars": {"b": 1.0}}])
    eventually(lambda: _last_step(live, other) == 1)
    live.send(run="large", attempt=2, world_size=1, records=[{"step": STEPS, "scalars": {"a": 1.0}}])
    live.send(run="other", records=[{"step": 2, "scalars": {"b": 1.0}}])
    turns.is_sent.set()
    eventually(lambda: _last_step(live, large) == STEPS)
    assert _last_step(live, other) == 2
    assert turns.taken.index("b", 1) < STEPS
    with live.app.state.collector.store.read() as repositories:
        seen = msgspec.msgpack.decode(repositories.detector_states.load(large).state)["seen"]
        assert repositories.waiting.first(large, limit=1) == {}
    assert seen == [*([1, step] for step in range(STEPS)), [2, STEPS]]


def test_two_collectors_in_turns_lose_nothing(start_collector, scripted, caplog):
    """Each reads the detections of the other, and the place of a signal that the other has created."""
    both = [start_collector(engine=scripted) for _ in range(2)]
    for step in range(10):
        receipt = both[step % 2].send(run="r", records=[{"step": step, "scalars": _signals(step)}])
        assert receipt["accepted"] == 1
    run_id = wire.run_id("default", "r")
    eventually(lambda: _last_step(both[0], run_id) == 9)
    with both[0].app.state.collector.store.read() as repositories:
        saved = repositories.detector_states.load(run_id)
    assert msgspec.msgpack.decode(saved.state)["seen"] == [[1, step] for step in range(10)]
    for live in both:
        steps = live.get(f"/runs/{run_id}/steps")["items"]
        assert [item["signals"] for item in steps] == [_signals(step) for step in range(10)]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def _signals(step):
    """Return the signals of a step: one of them is new in every other step."""
    return {"a": float(step), f"s{(step + 1) // 2}": float(step)}
