"""A deleted run or project leaves nothing behind, in no table and in no file."""

import base64
import contextlib
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import ANYBODY, Scope
from monitor_server.access.keys.administration import create_key
from monitor_server.durations import DAY_SECONDS
from monitor_server.retention import policy, worker
from monitor_server.retention.policy import RetentionPolicy
from monitor_server.rules.administration.changes import Author
from monitor_server.rules.administration.single_rules import create_rule
from monitor_server.rules.definition import read_rule
from monitor_server.settings import Settings
from monitor_server.store import database
from monitor_server.store.repositories.retention import step_thinning
from tests.databases import sqlite_only
from tests.live import eventually, serving
from tests.monitor_server.notifications.receivers import receiving, webhook, written
from tests.monitor_server.retention.runs import count_rows, send_everything
from tests.store_connections import current_connection


def _delete(live, path, **query):
    answer = live.pool.request("DELETE", f"{live.url}/api/v1{path}", fields=query)
    return answer.status, json.loads(answer.data)


def change_rule(live, method, run_id, *, name):
    """Make, change or delete a rule of a run."""
    stored = live.get("/rules", run_id=run_id)["items"]
    rule = {"name": name, "condition": "threshold", "signal": f"signal/{name}", "operator": ">", "value": 1.0}
    rule |= {"run_id": run_id, "message": name, "enabled": method == "POST"}
    path = f"/rules/{stored[0]['id']}" if method != "POST" else "/rules"
    body = {} if method == "DELETE" else {"json": {"rule": rule, "by": "a"}}
    answer = live.pool.request(method, f"{live.url}/api/v1{path}", **body)
    assert answer.status == 200, answer.data


@pytest.fixture
def live(start_collector, scripted, clock, tmp_path):
    with receiving() as receiver:
        channel = webhook("hook", receiver.url) + "actions = true\n"
        grouping = "[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n"
        path = written(tmp_path, channel, f'[[routes]]\nchannels = ["hook"]\n{grouping}')
        options = {"notifications": path, "public_url": "https://vitals.example"}
        yield start_collector(engine=scripted, clock=clock, retention_seconds=0.05, **options)


def test_a_deleted_run_leaves_no_row_in_any_table(live, database_url):
    """Before, every table holds something of it; after, none does, and another run has all that it had."""
    run_id, other = (send_everything(live, name, is_asked=True) for name in ("deleted", "kept"))
    eventually(lambda: all(count_rows(database_url, run_id).values()))  # links are issued in the background
    held, kept = count_rows(database_url, run_id), count_rows(database_url, other)
    live.send(run="deleted", end="finished")
    assert _delete(live, f"/runs/{run_id}") == (200, {"runs": [run_id]})
    assert [run["id"] for run in live.get("/runs")["items"]] == [other]
    for path in ("", "/series", "/steps", "/alerts", "/responses", "/phases", "/actions"):
        assert live.pool.request("GET", f"{live.url}/api/v1/runs/{run_id}{path}").status == 404
    assert {alert["run_id"] for alert in live.get("/alerts")["items"]} == {other}
    eventually(lambda: not any(count_rows(database_url, run_id).values()))
    assert count_rows(database_url, other) == kept
    metrics = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    assert f'rlvitals_removed_rows_total{{table="records"}} {held["records"]:.1f}' in metrics


@sqlite_only
def test_a_deleted_run_leaves_no_byte_in_the_files(scripted, clock, database_url, tmp_path):
    """Its texts, names and notes are found in the files before, and nowhere after the collector has ended."""

    def found():
        return [path.name for path in sorted(tmp_path.iterdir()) if b"bandersnatch" in path.read_bytes()]

    settings = {"database_url": database_url, "dashboard": "", "tick_seconds": 0.1, "retention_seconds": 0.05}
    with serving(Settings(**settings), clock=clock, engine=scripted) as live:
        run_id = send_everything(live, "bandersnatch run", text="bandersnatch", project="bandersnatch")
        send_everything(live, "kept")
        for action in ("POST", "PUT", "DELETE", "POST"):
            change_rule(live, action, run_id, name="bandersnatch")
    assert found() == ["rlvitals.db"]
    with serving(Settings(**settings), clock=clock, engine=scripted) as live:
        assert _delete(live, f"/runs/{run_id}", force="true")[0] == 200
        eventually(lambda: not any(count_rows(database_url, run_id).values()))
    assert found() == []


@sqlite_only
def test_a_long_log_of_sqlite_is_emptied_once_no_reader_needs_it(start_collector, database_url, tmp_path, monkeypatch):
    """What a backup kept in it goes while collectors run, each of which finds the log shorter than it was."""
    monkeypatch.setattr(database, "LONGEST_BYTES", 8_000)
    live, ingest = start_collector(retention_seconds=0.05), start_collector(role="ingest")
    log, path = tmp_path / "rlvitals.db-wal", tmp_path / "rlvitals.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as backup:
        backup.execute("BEGIN")
        backup.execute("SELECT count(*) FROM runs").fetchone()
        ended = {"end": "finished", "config": {"note": "bandersnatch"}}
        run_id = live.send(run="deleted", records=[{"step": 0, "scalars": {"a": 1.0}}], **ended)["run_id"]
        ingest.send(run="kept", records=[{"step": 0, "scalars": {"a": 1.0}}])
        assert _delete(live, f"/runs/{run_id}", force="true")[0] == 200
        eventually(lambda: not any(count_rows(database_url, run_id).values()))
        assert b"bandersnatch" in log.read_bytes()
    eventually(lambda: b"bandersnatch" not in log.read_bytes())
    for collector in (ingest, live):
        assert collector.send(run="kept", records=[{"step": 1, "scalars": {"a": 1.0}}])["run_id"] != run_id


def test_a_project_is_deleted_whole_or_not_at_all(live, database_url):
    """While one of its runs trains, none is deleted; another project stays."""
    old = live.run(run="old", project="a/b", end="finished")
    new = live.run(run="new", project="a/b", records=[{"step": 0, "scalars": {"a": 1.0}}])
    other = live.run(run="other")
    status, body = _delete(live, "/projects/a/b")
    assert (status, body["error"]) == (409, "RunActive")
    assert "'new' is running" in body["detail"]
    assert {run["id"] for run in live.get("/runs")["items"]} == {old, new, other}
    live.send(run="new", project="a/b", end="stopped")
    status, body = _delete(live, "/projects/a/b")
    assert (status, set(body["runs"])) == (200, {old, new})
    eventually(lambda: not any(count_rows(database_url, new).values()))
    assert [run["id"] for run in live.get("/runs")["items"]] == [other]
    assert _delete(live, "/projects/a/b")[1]["error"] == "UnknownProject"
    assert _delete(live, f"/runs/{old}")[1]["error"] == "UnknownRun"


def test_the_name_of_a_deleted_project_leaves_the_audit_log(live, database_url):
    """Keys of the project named it in words; action, author and the rest of the words stay."""
    run_id = live.run(run="old", project="50% 'off'", end="finished")
    with live.app.state.collector.store.write() as repositories:
        create_key(
            repositories, name="ci", scope=Scope.READ, project="50% 'off'", expires_at=None, author=ANYBODY, now=1.0
        )  # fmt: skip
        record_change(repositories, ANYBODY, "project.delete", "50% 'off'", now=2.0, project="50% 'off'")
        repositories.deletion.begin_deletion([run_id], now=3.0)
    eventually(lambda: not any(count_rows(database_url, run_id).values()))
    with live.app.state.collector.store.read() as repositories:
        deletion, key = repositories.audit_log.page(limit=9)
    assert (key["project"], key["detail"]) == (None, "ci: read, a deleted project")
    assert (deletion["project"], deletion["target"]) == (None, "a deleted project")


def test_a_run_whose_trainer_sends_is_deleted_by_force_and_begins_anew(live, database_url, clock):
    """Without force it is refused; with force, later records are a new run, without anything of the old one."""
    run_id = send_everything(live, "r")
    assert _delete(live, f"/runs/{run_id}")[0] == 409
    assert _delete(live, f"/runs/{run_id}", force="true")[0] == 200
    clock.now += 10
    record = {"step": 5_000, "scalars": {"other": 1.0, "reward/mean": 2.0, "warn": 0.0}}
    body = json.dumps({"schema_version": 1, "run": "r", "records": [record]}).encode()
    answers = []

    def is_stored():
        answers.append(live.post(body))
        return answers[-1].status == 200

    eventually(is_stored)
    assert {answer.status for answer in answers} <= {200, 503}
    assert all("is being deleted; send again" in answer.json()["detail"] for answer in answers[:-1])
    assert all(answer.headers["Retry-After"] == "1" for answer in answers[:-1])
    assert live.pool.request("GET", f"{live.url}/readyz").status == 200
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 5_000)
    assert live.get(f"/runs/{run_id}")["signals"] == ["other", "reward/mean", "warn"]
    assert [step["signals"] for step in live.get(f"/runs/{run_id}/steps")["items"]] == [record["scalars"]]
    assert live.get(f"/runs/{run_id}/alerts")["items"] == []
    assert count_rows(database_url, run_id)["steps"] == 1


def test_a_run_that_begins_anew_is_not_removed_by_who_is_behind(start_collector, database_url, clock):
    """Of two collectors that remove a run, the slower one still has its task when a trainer starts the run again."""
    live = start_collector(clock=clock, retention_seconds=3600)
    store, policy = live.app.state.collector.store, RetentionPolicy(Settings(), clock=clock)
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    with store.write() as repositories:
        repositories.deletion.begin_deletion([run_id], now=clock.now)
        (task,) = policy.find_urgent_tasks(repositories)
        while policy.remove_slice(repositories, task).rest is not None:
            pass
    clock.now += 1
    assert live.send(run="r", records=[{"step": 5, "scalars": {"a": 2.0}}])["accepted"] == 1
    held = count_rows(database_url, run_id)
    with store.write() as repositories:
        assert policy.remove_slice(repositories, task).rest is None
    assert count_rows(database_url, run_id) == held


def test_a_run_that_begins_anew_may_have_summaries_of_another_shape(live):
    """The remembered steps of the deleted run refuse no record of the new one."""

    def send(bins):
        counts = {"dtype": "int64", "shape": [bins], "data": base64.b64encode(bytes(8 * bins)).decode()}
        summary = {"type": "histogram", "low": 0.0, "high": 1.0, "quantile": 0.5, "counts": counts}
        live.send(run="r", config={})
        return live.send(run="r", records=[{"step": 0, "summaries": {"a": summary}}])

    old = send(4)
    assert _delete(live, f"/runs/{old['run_id']}", force="true")[0] == 200
    hello = json.dumps({"schema_version": 2, "run": "r", "config": {}}).encode()
    eventually(lambda: live.post(hello).status == 200)
    new = send(8)
    assert (new["accepted"], new.get("rejected", [])) == (1, [])


def test_a_deleted_run_does_not_wait_for_what_the_settings_remove(start_collector, clock, database_url, monkeypatch):
    """Its trainer is refused until its rows are gone, and the old steps of many runs take hours to remove."""
    monkeypatch.setattr(step_thinning, "STEPS_PER_SLICE", 1)
    limits = {"step_days": 30, "thinned_steps": 2, "stall_minimum_seconds": 1e9}
    live = start_collector(clock=clock, retention_seconds=0.05, **limits)
    records = [{"step": step, "scalars": {"a": 1.0}} for step in range(2_000)]
    old = live.run(run="old", records=records)
    clock.now += 31 * DAY_SECONDS
    eventually(lambda: count_rows(database_url, old)["steps"] < len(records))
    new = live.run(run="new", records=records[:1])
    assert _delete(live, f"/runs/{new}", force="true")[0] == 200
    eventually(lambda: not any(count_rows(database_url, new).values()))
    assert count_rows(database_url, old)["steps"] > len(records) / 2


def test_deleted_runs_are_removed_in_turn(start_collector, clock, database_url, monkeypatch):
    """A small run does not wait for a large one: of two equal runs, one is half removed when the other is gone."""
    for module in (policy, worker):
        monkeypatch.setattr(module, "ROWS_PER_SLICE", 4)
    live = start_collector(clock=clock, retention_seconds=3600)
    records = [{"step": step, "scalars": {"a": 1.0}} for step in range(60)]
    runs = [live.run(run=name, project="p", records=records) for name in "ab"]
    assert _delete(live, "/projects/p", force="true")[0] == 200
    held = [sum(count_rows(database_url, run_id).values()) for run_id in runs]
    left = eventually(
        lambda: 0 in (left := [sum(count_rows(database_url, run_id).values()) for run_id in runs]) and left
    )
    assert max(left) < max(held) / 2


def test_a_deletion_that_was_interrupted_is_finished_by_the_next_start(start_collector, scripted, database_url):
    """A collector that only hides the run ends; another one removes its rows."""
    web = start_collector(engine=scripted, role="web")
    both = start_collector(engine=scripted, retention_seconds=3600)
    run_id = send_everything(both, "r")
    assert _delete(web, f"/runs/{run_id}", force="true")[0] == 200
    assert count_rows(database_url, run_id)["steps"] > 0
    start_collector(engine=scripted, retention_seconds=0.05)
    eventually(lambda: not any(count_rows(database_url, run_id).values()))


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_the_removal_of_a_run_and_a_change_of_its_rule_lock_in_the_same_order(two_stores, append, clock):
    """The removal waits for the change without a lock of the run; two orders would be a deadlock."""
    here, other = two_stores
    run_id = append()
    rule = {"name": "a", "condition": "threshold", "signal": "a", "operator": ">", "value": 1.0, "run_id": run_id}
    with here.write() as repositories:
        made = create_rule(repositories, read_rule(rule), author=Author(caller=ANYBODY, now=clock.now))
        repositories.deletion.begin_deletion([run_id], now=clock.now)

    def remove():
        with other.write() as others:
            while others.deletion.remove_rows(run_id, limit=250) is not None:
                pass

    def is_somebody_waiting():
        with here.read():
            return current_connection().exec_driver_sql("SELECT 1 FROM pg_locks WHERE NOT granted").first()

    with ThreadPoolExecutor() as pool:
        with here.write() as repositories:
            repositories.rules.begin_change()
            removed = pool.submit(remove)
            eventually(is_somebody_waiting)
            repositories.limit_lock_waits(0.05)
            repositories.runs.lock(run_id)
            repositories.rules.remove([made.id])
        removed.result()
    with here.read() as repositories:
        assert not repositories.rules.all()
