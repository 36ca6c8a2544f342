"""Random logs of several ranks, projected in random slices with crashes, give the same as whole slices do."""

import random
import uuid

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor_server.settings import Settings
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps.detection import Tracker
from tests.monitor_server.interrupted_stores import crashing


def random_batches(draw):
    """Yield batches of up to three ranks: new steps, gaps, corrected steps, repeated batches and rewinds."""
    world_size = draw.choice((1, 1, 2, 3))
    attempt, next_step, sent = 1, dict.fromkeys(range(world_size), 0), []
    seqs = dict.fromkeys(range(world_size), 0)
    for _ in range(draw.randint(4, 20)):
        if sent and draw.random() < 0.1:
            yield draw.choice(sent)
            continue
        if draw.random() < 0.1:
            attempt += 1
            back_to = max(0, max(next_step.values()) - draw.choice((0, 1, 3, 10)))
            next_step, seqs = dict.fromkeys(next_step, back_to), dict.fromkeys(seqs, 0)
        rank, records = draw.randrange(world_size), []
        for _ in range(draw.choice((1, 1, 2, 5, 12))):
            if draw.random() < 0.8:
                step = next_step[rank] + (draw.random() < 0.1)
                next_step[rank] = step + 1
            else:
                step = max(0, next_step[rank] - draw.randint(1, 6))
            scalars = {"warn": float(draw.random() < 0.3), "page": float(draw.random() < 0.1), "x": draw.random()}
            records.append({"step": step, "seq": seqs[rank], "time": 1e6 + step, "scalars": scalars})
            seqs[rank] += 1
        sent.append({"attempt": attempt, "rank": rank, "world_size": world_size, "records": records})
        yield sent[-1]


def _project_at_random(draw, store, run_id, create_projection):
    """Project some of what waits, in slices of one step or whole ones, by one of several projectors that may crash."""
    projection = create_projection()
    while True:
        if draw.random() < 0.2:
            try:
                projection.project(crashing(store), run_id, is_smallest=draw.random() < 0.5)
            except ZeroDivisionError:
                projection.forget(run_id)
        if draw.random() < 0.2:
            projection = create_projection()
        if not projection.project(store, run_id, is_smallest=draw.random() < 0.7).has_more or draw.random() < 0.1:
            return


def _outcome(store, run_id):
    with store.read() as repositories:
        steps = repositories.steps.page(run_id, from_step=0, limit=1_000)
        alerts = repositories.alerts.page(limit=1_000, run_id=run_id)
        detectors = repositories.detector_states.load(run_id)
        return {
            "steps": [(step.attempt, step.step, step.time, step.signals) for step in steps],
            "alerts": [(row["kind"], row["severity"], row["opened_step"], row["resolved_step"]) for row in alerts],
            "phases": list(repositories.phases.all(run_id)),
            "seen": None if detectors is None else msgspec.msgpack.decode(detectors.state)["seen"],
            "waiting": sorted(repositories.waiting.first(run_id, limit=1_000)),
        }


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_random_slices_with_crashes_give_the_same_as_whole_slices(store, append, scripted, clock, seed):
    """Steps, alerts, phases, the order of detection and the steps that wait are equal at the end."""
    draw, name = random.Random(seed), uuid.uuid4().hex  # noqa: S311 - synthetic telemetry

    def create_projection():
        return Projection(Tracker(scripted), settings=Settings(), clock=clock, owner="one")

    for batch in random_batches(draw):
        whole, cut = append(run=f"whole-{name}", **batch), append(run=f"cut-{name}", **batch)
        if draw.random() < 0.7:
            _project_at_random(draw, store, cut, create_projection)
    for run_id in (whole, cut):
        projection = create_projection()
        while projection.project(store, run_id).has_more:
            pass
    assert _outcome(store, cut) == _outcome(store, whole)
