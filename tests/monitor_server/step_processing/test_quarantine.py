"""A run that cannot be processed affects no other run, and an alert, a metric and readyz report it."""

import json

import msgspec
import pytest
import sqlalchemy

from monitor_server.commands.logs.check import EXIT_NOT_OBSERVED
from monitor_server.commands.main import main
from monitor_server.ingest.reset import reset_run
from monitor_server.log_check import assert_healthy
from monitor_server.settings import Settings
from tests.live import eventually, listening, serving
from tests.monitor_server.notifications.receivers import receiving, webhook, written
from tests.monitor_server.readiness import readiness
from trainer_hooks import wire

SHARD = {"run": "sick", "world_size": 2}


def _metrics(live):
    return live.pool.request("GET", f"{live.url}/metrics").data.decode()


@pytest.fixture
def live(start_collector, scripted, clock, notifications, damaged):  # noqa: ARG001 - it comes first
    """A collector that projects and notifies, started after a record was damaged."""
    return start_collector(engine=scripted, clock=clock, stall_minimum_seconds=100, notifications=notifications)


@pytest.fixture
def receiver():
    with receiving() as found:
        yield found


@pytest.fixture
def notifications(receiver, tmp_path):
    """A file whose only route leads critical alerts to the receiver."""
    route = '[grouping]\nwait_seconds = 0\n[[routes]]\nchannels = ["hook"]\nseverity = "critical"\n'
    return written(tmp_path, webhook("hook", receiver.url), route)


@pytest.fixture
def database(database_url):
    engine = sqlalchemy.create_engine(database_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection
    engine.dispose()


def _set_body(database, run_id, body, *, step=0):
    """Write the bytes of the record of the first rank at a step."""
    database.execute(
        sqlalchemy.text("UPDATE records SET body = :body WHERE run_id = :run AND step = :step AND rank = 0"),
        {"body": body, "run": run_id, "step": step},
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


def test_a_run_that_cannot_be_processed_is_quarantined_alone(live, clock, sick, receiver):
    """An alert, a message, a metric and readyz say so; its records stay, and silence elsewhere is still noticed."""
    run_id, _ = sick
    (alert,) = live.get(f"/runs/{run_id}/alerts")["items"]
    assert (alert["kind"], alert["severity"], alert["state"]) == ("monitor_degraded", "critical", "firing")
    assert "cannot be processed" in alert["summary"]
    eventually(lambda: receiver.changes == [("sick", ("opened",))])
    assert readiness(live) == (200, {"status": "ok", "quarantined_runs": 1, "failing_channels": 0})
    assert "rlvitals_quarantined_runs 1.0" in _metrics(live)
    assert live.send(**SHARD, rank=0, records=[{"step": 1, "scalars": {"a": 2.0}}])["accepted"] == 1
    clock.now += 101
    well = wire.run_id("default", "well")
    eventually(lambda: [alert["kind"] for alert in live.get(f"/runs/{well}/alerts")["items"]] == ["telemetry_stale"])
    assert live.send(run="well", records=[{"step": 1, "scalars": {"warn": 1.0}}])["alerts"][0]["kind"] == "scripted"


def test_the_trainer_of_a_quarantined_run_is_found_lost_and_heard_again(start_collector, scripted, clock, damaged):
    """It dies and returns within the ten minutes until the run is tried again."""
    live, (run_id, _) = start_collector(engine=scripted, clock=clock, lost_factor=1.5), damaged

    def fire(*kinds):
        found = [alert for alert in live.get(f"/runs/{run_id}/alerts")["items"] if alert["state"] == "firing"]
        return {alert["kind"] for alert in found} == {"monitor_degraded", *kinds}

    live.send(**SHARD, rank=1, records=[{"step": 0}])
    eventually(fire)
    clock.now += 451  # of 300 s after which a run stalls
    eventually(lambda: fire("telemetry_stale", "trainer_lost"))
    live.send(**SHARD, rank=0, records=[{"step": 1, "scalars": {"a": 2.0}}])
    eventually(fire)
    live.send(**SHARD, rank=0, end="finished")
    eventually(lambda: live.get(f"/runs/{run_id}")["status"] == "finished")
    assert fire()


def test_a_damaged_record_is_quarantined_whatever_its_bytes_are(start_collector, scripted, clock, database):
    """The error names a field of it that nobody knows, and PostgreSQL stores no NUL."""
    ingest = start_collector(role="ingest", clock=clock)
    run_id = ingest.run(run="sick", records=[{"step": 0, "scalars": {"a": 1.0}}])
    _set_body(database, run_id, msgspec.msgpack.encode({"step": 0, "a\0\x1b[2J": 1}))
    live = start_collector(engine=scripted, clock=clock, stall_minimum_seconds=100)
    (alert,) = eventually(lambda: live.get(f"/runs/{run_id}/alerts")["items"])
    assert r"a\x00\x1b[2J" in alert["evidence"]["detail"]
    assert live.get(f"/runs/{run_id}")["quarantine_reason"] == f"ValidationError: {alert['evidence']['detail']}"


def test_every_step_before_a_damaged_record_is_shown(start_collector, clock, database):
    """They were read in one slice with it; detectors see them, and charts and exports have them."""
    ingest = start_collector(role="ingest", clock=clock)
    for begin in (0, 30):
        run_id = ingest.run(run="r", records=[{"step": begin + step, "scalars": {"a": 1.0}} for step in range(30)])
    _set_body(database, run_id, b"\xc1", step=59)  # a batch is stored under its last step
    live = start_collector(clock=clock)
    eventually(lambda: live.get(f"/runs/{run_id}")["quarantine_reason"])
    assert live.get(f"/runs/{run_id}")["last_step"] == 29
    (series,) = live.get(f"/runs/{run_id}/series", signals="a")["items"]
    assert series["steps"] == list(range(30))


def test_a_table_that_is_away_quarantines_no_run(start_collector, clock, database):
    """On PostgreSQL each run that sent meanwhile was quarantined for ten minutes, and readyz said that all was well."""
    live = start_collector(clock=clock, verdict_wait_seconds=0.1)
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    database.execute(sqlalchemy.text("ALTER TABLE steps RENAME TO steps_away"))
    live.send(run="r", records=[{"step": 1, "seq": 1, "scalars": {"a": 2.0}}])
    _, answer = eventually(lambda: found if (found := readiness(live))[0] == 503 else None)
    assert "steps" in answer["detail"]
    database.execute(sqlalchemy.text("ALTER TABLE steps_away RENAME TO steps"))
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 1)
    assert eventually(lambda: readiness(live)[0] == 200)
    assert readiness(live)[1]["quarantined_runs"] == 0


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
    assert readiness(live)[1]["quarantined_runs"] == 0
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
    assert readiness(live) == (200, {"status": "ok", "quarantined_runs": 0, "failing_channels": 0})


def test_the_phase_of_a_quarantined_run_is_not_known(start_collector, database):
    """No detector sees its steps, so readers are not told that it is healthy; open pages learn it by the stream."""
    signals = {"entropy/mean": 0.5, "reward/mean": 0.5}
    rows = [
        {"step": step, "scalars": signals | {"likelihood/correct": -0.4 - 0.001 * (step % 3)}} for step in range(31)
    ]
    url = database.engine.url.render_as_string(hide_password=False)
    with serving(Settings(database_url=url, dashboard="", tick_seconds=0.1)) as first:
        run_id = first.run(run="sick", records=rows[:30])
        eventually(lambda: first.get(f"/runs/{run_id}")["last_step"] == 29)
        known = first.get(f"/runs/{run_id}")["phase"]
        assert first.get("/runs", where="phase_steps:above:0")["items"][0]["phase_from_step"] is not None
    assert known != "unknown"
    saved = database.execute(sqlalchemy.text("SELECT state FROM detector_states")).scalar_one()
    damage = sqlalchemy.text("UPDATE detector_states SET state = :state")
    database.execute(damage, {"state": b"\xc1"})
    live = start_collector()
    with listening(live) as events:
        live.send(run="sick", records=rows[30:])
        event = next(data for kind, data in events if kind == "run" and data["phase"] == "unknown")
        assert event["id"] == run_id
        found = live.get(f"/runs/{run_id}")
        assert (found["phase"], found["phase_from_step"]) == ("unknown", None)  # nobody recorded since when
        assert live.get("/runs", where="phase_steps:above:0")["items"] == []
        assert (live.get(f"/runs/{run_id}/forecast"), live.get(f"/runs/{run_id}/warranty")) == (None, None)
        (alert,) = live.get(f"/runs/{run_id}/alerts")["items"]
        assert live.pool.request("GET", f"{live.url}/api/v1/alerts/{alert['id']}/incident").status == 200
        assert [run["id"] for run in live.get("/runs", phase="unknown")["items"]] == [run_id]
        assert 'phase="unknown",project="default",run="sick"} 1.0' in _metrics(live)
        database.execute(damage, {"state": saved})
        writer = live.app.state.collector.writer
        writer.submit(run_id, lambda repositories: reset_run(repositories, run_id, now=0.0)).result()
        eventually(lambda: live.get(f"/runs/{run_id}")["phase"] == known)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_the_export_of_a_quarantined_run_is_never_healthy(start_collector, database, tmp_path, capsys, form):
    """The file lacks the steps that were not processed: `check` observes nothing, and `calibrate` learns nothing."""
    rows = [{"step": step, "scalars": {"reward/mean": 0.5}} for step in range(31)]
    url = database.engine.url.render_as_string(hide_password=False)
    with serving(Settings(database_url=url, dashboard="", tick_seconds=0.1)) as first:
        run_id = first.run(run="sick", records=rows[:30])
        eventually(lambda: first.get(f"/runs/{run_id}")["last_step"] == 29)
    damage = sqlalchemy.text("UPDATE detector_states SET state = :state WHERE run_id = :run")
    database.execute(damage, {"state": b"\xc1", "run": run_id})
    live = start_collector()
    live.send(run="sick", records=rows[30:])
    eventually(lambda: live.get(f"/runs/{run_id}")["quarantine_reason"])
    file = tmp_path / f"run.{form}"
    file.write_bytes(live.pool.request("GET", f"{live.url}/api/v1/runs/{run_id}/export", fields={"format": form}).data)
    assert main(["check", str(file), "--json", "--fail-on", "critical"]) == EXIT_NOT_OBSERVED
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    assert (found["outcome"], found["last_step"]) == ("not observed", 29)
    assert "No alarm up to step 29. The collector could not process the run after that step" in found["verdict"]
    with pytest.raises(AssertionError, match="exported none of its"):
        assert_healthy(file)
    main(["calibrate", str(file), "--write", str(tmp_path / "own.json")])
    assert "it is not known to be healthy" in capsys.readouterr().err
