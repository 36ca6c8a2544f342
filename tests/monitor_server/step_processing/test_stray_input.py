"""Numbers and amounts that no trainer means: they cost the run that sent them little, and detection goes on."""

import dataclasses

import msgspec
import numpy as np
import pytest

from monitor_server.durations import DAY_SECONDS
from monitor_server.ingest.record_log.log_append import LogAppender
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from monitor_server.step_processing import log_entries
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps.detection import Tracker
from tests.store_connections import noted_statements
from trainer_hooks import wire

LARGEST_STEP = 2**53


class Bench:
    """Ingest and projection of one store, called by hand."""

    def __init__(self, store, engine, clock):
        self.store, self.clock = store, clock
        self.settings = Settings(dashboard="", step_deadline_seconds=60, stall_minimum_seconds=300)
        self.log = LogAppender(settings=self.settings, clock=clock)
        self.in_between = lambda: None  # tests set it later
        self.projection = Projection(Tracker(engine), settings=self.settings, clock=clock, give_way=self._give_way)
        self.run_id = wire.run_id("default", "r")

    def _give_way(self):
        self.in_between()

    def append(self, records, **batch):
        """Append a batch of one rank."""
        body = wire.encode(
            wire.Batch(
                schema_version=wire.SCHEMA_VERSION,
                run="r",
                records=[msgspec.Raw(wire.encode(wire.Record(**record))) for record in records],
                **batch,
            )
        )
        valid = read_batch(body, media_type=wire.MSGPACK, encoding="", settings=self.settings)
        with self.store.write() as repositories:
            appended = self.log.append_deferred(repositories, valid)
            self.log.flush(repositories)
        return appended

    def project(self):
        """Project all that there is, and return how many slices it took."""
        count = 1
        while (done := self.projection.project(self.store, self.run_id)) is not None and done.has_more:
            count += 1
        return count

    def run(self):
        """Return the run as it is stored."""
        with self.store.read() as repositories:
            return repositories.runs.find(self.run_id)

    def seen(self):
        """Return attempt and step of each step that detection has received."""
        with self.store.read() as repositories:
            saved = repositories.detector_states.load(self.run_id)
        return [] if saved is None else [step for _, step in msgspec.msgpack.decode(saved.state)["seen"]]

    def steps(self):
        """Return the numbers of all stored steps."""
        with self.store.read() as repositories:
            return [step.step for step in repositories.steps.page(self.run_id, from_step=0, limit=100_000)]


@pytest.fixture
def bench(store, scripted, clock):
    return Bench(store, scripted, clock)


def _step(number, **fields):
    return {"step": number, "scalars": {"a": 1.0}, **fields}


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_a_stray_step_far_ahead_is_stored_and_detection_goes_on_behind_it(bench, is_one_batch):
    """A step of 2⁵³ is no reason to take the next ones for late; it is stored as it was sent."""
    numbers = [0, 1, LARGEST_STEP, 2, 3]
    if is_one_batch:
        bench.append([_step(number, seq=place) for place, number in enumerate(numbers)])
    for place, number in enumerate(() if is_one_batch else numbers):
        bench.append([_step(number, seq=place)])
        bench.project()
    bench.project()
    assert bench.seen() == [0, 1, 2, 3]
    assert bench.run().last_step == 3
    assert bench.steps() == [0, 1, 2, 3, LARGEST_STEP]


def test_a_stray_first_step_costs_two_steps_of_detection(bench):
    """An attempt is unknown when its first step comes; three steps below show that the first was stray."""
    for place, number in enumerate([LARGEST_STEP, 0, 1, 2, 3]):
        bench.append([_step(number, seq=place)])
        bench.project()
    assert bench.seen() == [2, 3]
    assert bench.run().last_step == 3
    assert bench.steps() == [0, 1, 2, 3, LARGEST_STEP]
    with bench.store.read() as repositories:
        assert [begin for _, begin, _ in repositories.phases.all(bench.run_id)] == [2]


def test_late_steps_far_behind_are_no_reason_to_start_anew(bench):
    """Where a few steps are known, old ones that come late correct the store and change nothing else."""
    newest = [5_000_000 + number for number in range(4)]
    for place, number in enumerate([*newest, 0, 1, 2, 3]):
        bench.append([_step(number, seq=place)])
        bench.project()
    assert bench.seen() == newest


def test_a_counter_that_has_moved_is_believed_at_its_third_step(bench):
    """A trainer that counts otherwise from now on is followed, after two steps without detection."""
    moved = [LARGEST_STEP // 2 + number for number in range(4)]
    for number in [0, 1, *moved]:
        bench.append([_step(number)])
        bench.project()
    assert bench.seen() == [0, 1, *moved[2:]]
    assert bench.run().last_step == moved[-1]


def test_a_stray_step_does_not_thin_the_responses(bench):
    """Responses are thinned by the step that detection has reached, not by a number that was sent."""
    response = wire.Response(
        kinds=("random",),
        reward=1.0,
        correct=True,
        length=1,
        logprob=-1.0,
        actions=wire.Array.from_numpy(np.array([[0, 1]], dtype="int32")),
        logprobs=wire.Array.from_numpy(np.array([-1.0], dtype="float32")),
    )
    raw = [msgspec.Raw(wire.encode(response))]
    for place, number in enumerate((0, 1, 2, LARGEST_STEP, 3)):
        bench.append([_step(number, seq=place, responses=raw)])
        bench.project()
    with bench.store.read() as repositories:
        kept = [stored.step for stored in repositories.responses.page(bench.run_id, limit=10)]
    assert set(kept) >= {0, 1, 2, 3}


def test_the_stall_deadline_is_not_longer_than_the_run_is_known(bench, clock):
    """Times that a trainer sent a century apart set no deadline of centuries."""
    for number in range(4):
        bench.append([_step(number, time=number * 3e9)])
        bench.project()
        assert bench.run().stall_seconds <= bench.settings.stall_factor * DAY_SECONDS
        clock.now += 10
    assert bench.run().stall_seconds == bench.settings.stall_minimum_seconds  # of the later times, ten seconds apart


def test_a_step_that_waits_is_not_read_again_with_each_batch(bench):
    """Thousands of records of one step are decoded once, however many batches follow."""
    bench.append([_step(0, seq=seq) for seq in range(500)], rank=0, world_size=2)
    bench.project()
    for batch in range(5):
        bench.append([_step(1 + batch, seq=1000 + batch)], rank=0, world_size=2)
        with noted_statements() as asked:
            bench.project()
        read = [statement for statement, _ in asked if "records.body" in statement and "length" not in statement]
        assert len(read) == 1  # the log
    bench.append([_step(number) for number in range(6)], rank=1, world_size=2)
    bench.project()
    assert bench.seen() == list(range(6))


def test_late_records_of_thousands_of_steps_are_mended_together(bench, clock):
    """Statements are counted, not seconds: some for hundreds of steps, not some for each."""
    steps = 600
    loss = {"loss": wire.Moments(sum=1.0, count=1)}
    bench.append([_step(number, summaries=loss) for number in range(steps)], rank=0, world_size=2)
    bench.project()
    clock.now += 61
    bench.project()
    late = {"loss": wire.Moments(sum=3.0, count=1)}
    bench.append([{"step": number, "summaries": late} for number in range(steps)], rank=1, world_size=2)
    with noted_statements() as asked:
        bench.project()
    assert len(asked) < steps / 5
    with bench.store.read() as repositories:
        assert repositories.steps.at(bench.run_id, steps - 1)["loss"] == 2.0
    assert bench.seen() == list(range(steps))


def test_a_slice_reads_a_bounded_number_of_bytes(bench, monkeypatch):
    """A log of large records is read batch by batch."""
    monkeypatch.setattr(log_entries, "BYTES_PER_SLICE", 10_000)
    for number in range(3):
        bench.append([{"step": number, "scalars": {f"signal/{place}": 1.0 for place in range(400)}}])
    assert bench.project() == 3
    assert bench.seen() == [0, 1, 2]


def test_an_acknowledgement_between_reading_and_writing_stays(bench, clock):
    """A slice that was computed before a person acknowledged writes the alert with the acknowledgement."""
    bench.append([_step(0) | {"scalars": {"warn": 1.0}}])
    bench.project()
    bench.append([_step(1) | {"scalars": {"warn": 1.0}}])
    with bench.store.read() as repositories:
        (alert,) = repositories.alerts.firing(bench.run_id)

    def acknowledge():
        with bench.store.write() as repositories:
            given = {"acknowledged_at": clock.now, "acknowledged_by": "Ada", "note": "seen"}
            repositories.alerts.save(dataclasses.replace(alert, **given))

    bench.in_between = acknowledge
    bench.project()
    with bench.store.read() as repositories:
        (alert,) = repositories.alerts.firing(bench.run_id)
    assert (alert.last_step, alert.acknowledged_by, alert.note) == (1, "Ada", "seen")
