"""A run that cannot be processed affects no other run, and an alert, a metric and readyz report it."""

import pytest
import sqlalchemy

from monitor_server.ingest.reset import reset_run
from tests.live import eventually
from trainer_hooks import wire

SHARD = {"run": "sick", "world_size": 2}


def _ready(live):
    answer = live.pool.request("GET", f"{live.url}/readyz")
    return answer.status, answer.json()


def _metrics(live):
    return live.pool.request("GET", f"{live.url}/metrics").data.decode()


@pytest.fixture
def live(start_collector, scripted, clock, damaged):  # noqa: ARG001 - it comes first
    """A collector that projects, started after a record was damaged."""
    return start_collector(engine=scripted, clock=clock, stall_minimum_seconds=100)


@pytest.fixture
def database(database_url):
    engine = sqlalchemy.create_engine(database_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection
    engine.dispose()


def _set_body(database, run_id, body):
    """Write the bytes of the run's first record."""
    database.execute(
        sqlalchemy.text("UPDATE records SET body = :body WHERE run_id = :run AND step = 0 AND rank = 0"),
        {"body": body, "run": run_id},
    )


@pytest.fixture
def damaged(start_collector, clock, database):
    """A record that no projector has read yet, and whose bytes are invalid."""
    ingest = start_collector(role="ingest", clock=clock)
    run_id = ingest.run(**SHARD, rank=0, records=[{"step": 0, "scalars": {"a": 1.0}}])
    body = wire.encode(wire.Record(step=0, scalars={"a": 1.0}))
    _set_body(database, run_id, b"\xc1")
    return run_id, body


@pytest.fixture
def sick(live, damaged):
    """A run whose log holds invalid bytes, with a healthy one beside it."""
    run_id, body = damaged
    live.send(run="well", records=[{"step": 0, "scalars": {"a": 1.0}}])
    receipt = live.send(**SHARD, rank=1, records=[{"step": 0}])
    assert receipt["accepted"] == 1
    eventually(lambda: live.get(f"/runs/{run_id}/alerts")["items"])
    return run_id, body


def test_a_run_that_cannot_be_processed_is_quarantined_alone(live, clock, sick):
    """An alert, a metric and readyz say so; its records are stored, and silence elsewhere is still noticed."""
    run_id, _ = sick
    (alert,) = live.get(f"/runs/{run_id}/alerts")["items"]
    assert (alert["kind"], alert["severity"], alert["state"]) == ("monitor_degraded", "critical", "firing")
    assert "cannot be processed" in alert["summary"]
    assert _ready(live) == (200, {"status": "ok", "quarantined_runs": 1, "failing_channels": 0})
    assert "rlvitals_quarantined_runs 1.0" in _metrics(live)
    assert live.send(**SHARD, rank=0, records=[{"step": 1, "scalars": {"a": 2.0}}])["accepted"] == 1
    clock.now += 101
    well = wire.run_id("default", "well")
    eventually(lambda: [alert["kind"] for alert in live.get(f"/runs/{well}/alerts")["items"]] == ["telemetry_stale"])
    assert live.send(run="well", records=[{"step": 1, "scalars": {"warn": 1.0}}])["alerts"][0]["kind"] == "scripted"


@pytest.mark.parametrize("by", ["reset", "time"])
def test_a_quarantined_run_is_tried_again(live, clock, database, sick, by):
    """It is tried after ten minutes or at a reset; if the cause is gone, no step is missing."""
    run_id, body = sick
    _set_body(database, run_id, body)
    if by == "time":
        clock.now += 601
    else:
        writer = live.app.state.collector.writer
        writer.submit(run_id, lambda repositories: reset_run(repositories, run_id, now=clock.now)).result()
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 0)
    assert _ready(live)[1]["quarantined_runs"] == 0
    live.send(**SHARD, rank=0, records=[{"step": 1, "scalars": {"a": 2.0}}])
    live.send(**SHARD, rank=1, records=[{"step": 1}])
    degraded = [a for a in live.get(f"/runs/{run_id}/alerts")["items"] if a["kind"] == "monitor_degraded"]
    assert [alert["state"] for alert in degraded] == ["resolved"]


def test_a_damaged_pace_is_learned_anew(start_collector, scripted, clock, database):
    """The run is projected as before, and no deadline of another run waits for it."""
    live = start_collector(engine=scripted, clock=clock)
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 0)
    damage = sqlalchemy.text("UPDATE runs SET recent = :recent WHERE id = :run")
    database.execute(damage, {"recent": b"\xc1", "run": run_id})
    live.send(run="r", records=[{"step": 1, "scalars": {"a": 1.0}}])
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 1)
    assert _ready(live) == (200, {"status": "ok", "quarantined_runs": 0, "failing_channels": 0})
