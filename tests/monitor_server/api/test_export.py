"""An export is read back to the same phases and alerts."""

import contextlib
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psycopg
import pytest
import urllib3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from monitor_server.api.export import parquet as parquet_export
from monitor_server.api.export import run_pages
from monitor_server.api.export.json_lines import export_jsonl
from monitor_server.commands import repeated_requests
from monitor_server.commands.collector import export as export_command
from monitor_server.commands.main import main
from monitor_server.errors import Unavailable, UnknownRun
from monitor_server.http_server.read_limits import MAX_EXPORTS, MAX_EXPORTS_OF_ONE
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.log_check.examination import examine
from monitor_server.store.repositories.runs import Runs
from tests.databases import enlarge_configurations, sqlite_only
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded
from tests.recorded_runs import read_run
from trainer_hooks import wire

FORMATS = ["jsonl", "parquet"]


RUN = Path(__file__).parents[3] / "docs" / "experiments" / "runs" / "llds-0.1-seed3.jsonl.gz"


def _collapsing():
    """A run of 120 steps that collapses, with a scalar under a name that another trainer gives to a signal of ours."""
    for step in read_run(RUN):
        scalars = {name: _spelled(value) for name, value in step.signals.items()} | {"loss": 5.0 - step.step}
        version = f"v{step.step // 60}"
        yield {"step": step.step, "time": 1e6 + 10 * step.step, "data_version": version, "scalars": scalars}


def _findings(live, run_id):
    alerts = live.get(f"/runs/{run_id}/alerts", limit=1000)["items"]
    kept = ("kind", "severity", "opened_step", "severity_step", "last_step", "resolved_step", "summary", "evidence")
    return live.get(f"/runs/{run_id}/phases")["items"], [
        {name: alert[name] for name in kept} for alert in alerts if alert["kind"] != "telemetry_stale"
    ]


def _export(live, run_id, file):
    assert main(["export", run_id, "-o", str(file), "--url", live.url]) == 0
    return file


@pytest.fixture
def recorded(collector, sent_once):
    """A collector with a run of two attempts that collapses, on which a person has acknowledged an alert."""
    return collector, sent_once(collector, _record)


def _record(live):
    records = list(_collapsing())
    run_id = live.run(run="recorded", project="a b", attempt=1001, config={"lr": 1e-6}, records=records[:90])
    critical = [alert for alert in live.get(f"/runs/{run_id}/alerts")["items"] if alert["severity"] != "info"]
    for alert in critical[:2]:
        live.pool.request("POST", f"{live.url}/api/v1/alerts/{alert['id']}/ack", json={"by": "a", "note": ""})
    live.send(run="recorded", project="a b", attempt=2002, records=records[80:])
    return run_id


@pytest.mark.parametrize("form", FORMATS)
def test_a_replayed_export_opens_the_same_alerts_and_phases(recorded, tmp_path, form):
    """Rewinds, acknowledgements and names that mean something else elsewhere included."""
    live, run_id = recorded
    phases, alerts = _findings(live, run_id)
    assert len(alerts) > 2
    assert {phase["phase"] for phase in phases} > {"healthy"}
    file = _export(live, run_id, tmp_path / f"recorded.{form}")
    assert main(["replay", str(file), "--project", f"again from {form}", "--url", live.url]) == 0
    (again,) = live.get("/runs", project=f"again from {form}")["items"]
    assert (again["name"], again["status"]) == ("recorded", "stopped")
    assert _findings(live, again["id"]) == (phases, alerts)
    assert set(live.get(f"/runs/{again['id']}")["signals"]) == set(live.get(f"/runs/{run_id}")["signals"])


def _acknowledged(live, run_id):
    alerts = live.get(f"/runs/{run_id}/alerts", limit=1000)["items"]
    return {(alert["kind"], alert["opened_step"]) for alert in alerts if alert["acknowledged_at"] is not None}


def test_a_replay_of_what_is_there_already_acknowledges_no_other_alert(start_collector, tmp_path):
    """An alert of the same kind that opened later fires on, and its escalation goes on."""
    live = start_collector()
    grads = [30.0 if step in range(60, 70) or step > 150 else 1.0 + step % 7 / 20 for step in range(160)]
    records = [{"step": step, "scalars": {"grad/norm": grad, "reward/mean": 0.5}} for step, grad in enumerate(grads)]
    run_id = live.run(run="twice", records=records[:65])
    (first,) = live.get(f"/runs/{run_id}/alerts")["items"]
    live.pool.request("POST", f"{live.url}/api/v1/alerts/{first['id']}/ack", json={"by": "a", "note": ""})
    live.send(run="twice", records=records[65:])
    file = _export(live, run_id, tmp_path / "recorded.jsonl")
    for _ in range(2):
        assert main(["replay", str(file), "--project", "again", "--url", live.url]) == 0
        (again,) = live.get("/runs", project="again")["items"]
        assert _findings(live, again["id"]) == _findings(live, run_id)
        assert _acknowledged(live, again["id"]) == _acknowledged(live, run_id)


def test_a_replay_that_was_interrupted_before_an_acknowledgement_gives_it_later(recorded, tmp_path, capsys):
    """The steps up to it were sent already, and the detectors learn of it after the same step as in the live run."""
    live, run_id = recorded
    rows = [json.loads(line) for line in _export(live, run_id, tmp_path / "recorded.jsonl").read_text().splitlines()]
    place = next(place for place, row in enumerate(rows) if row.get("acknowledged"))
    begun = [*rows[:place], {name: value for name, value in rows[place].items() if name != "acknowledged"}]
    for sent, status in ((begun, 1), ([*begun, rows[-1]], 0), (rows, 0)):  # the first one was cut
        (tmp_path / "sent.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sent))
        assert main(["replay", str(tmp_path / "sent.jsonl"), "--project", "interrupted", "--url", live.url]) == status
        assert ("must hold the whole run 'recorded'" in capsys.readouterr().err) == bool(status)
    (again,) = live.get("/runs", project="interrupted")["items"]
    assert _findings(live, again["id"]) == _findings(live, run_id)
    assert _acknowledged(live, again["id"]) == _acknowledged(live, run_id)


@pytest.mark.parametrize("form", FORMATS)
def test_a_replay_names_the_run_of_a_project_that_has_no_step_yet(start_collector, tmp_path, capsys, form):
    """One rank of two has sent a step; the other runs of the file are replayed, and a script goes on."""
    live = start_collector()
    live.send(run="begun", project="p", world_size=2, records=[{"step": 0, "scalars": {"a": 1.0}}])
    live.send(run="going", project="p", records=[{"step": 0, "scalars": {"a": 1.0}}])
    file = tmp_path / f"p.{form}"
    assert main(["export", "--project", "p", "-o", str(file), "--url", live.url]) == 0
    assert main(["replay", str(file), "--project", "again", "--url", live.url]) == 0
    assert f"the run 'begun' of {file} must hold at least one logged step" in capsys.readouterr().err
    assert [run["name"] for run in live.get("/runs", project="again")["items"]] == ["going"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_checked_export_has_the_same_phases(recorded, tmp_path, form):
    """`rlvitals check` reads the file alone, and finds the first page where the collector opened it."""
    live, run_id = recorded
    phases, alerts = _findings(live, run_id)
    (log,) = find_logs([_export(live, run_id, tmp_path / f"recorded.{form}")])
    found = examine(log)
    assert found.rows == 140
    assert found.mapping.keys_of_signals().keys() == set(live.get(f"/runs/{run_id}")["signals"]) - {"loss"}
    critical = [alert["severity_step"] for alert in alerts if alert["severity"] == "critical"]
    assert (found.page_step, found.collapse_step) == (
        min(critical, default=None),
        next((phase["from_step"] for phase in phases if phase["phase"] == "collapsed"), None),
    )
    last = live.get(f"/runs/{run_id}")["phase"]
    assert str(found.phases[-1].phase) == last


def test_a_project_is_exported_run_by_run(start_collector, tmp_path):
    """Each run is a separate log in the one file, with its own signals; runs of other projects are not there."""
    live = start_collector()
    for run, signal in (("one", "a"), ("two", "b")):
        live.send(run=run, project="p/q", records=[{"step": 3, "scalars": {signal: 1.5}}])
    live.send(run="other", records=[{"step": 0, "scalars": {"c": 1.0}}])
    for form in FORMATS:
        file = tmp_path / f"project.{form}"
        assert main(["export", "--project", "p/q", "-o", str(file), "--url", live.url]) == 0
        rows = {log.name: [(row.step, dict(row)) for row in log.read(ReadReport())] for log in find_logs([file])}
        assert rows == {"one": [(3, {"a": 1.5})], "two": [(3, {"b": 1.5})]}


def test_a_parquet_file_of_too_many_signals_is_refused_in_words(start_collector, monkeypatch):
    """Each signal of any run is a column of every row group: beyond a number of them JSON lines are the form to use."""
    monkeypatch.setattr(parquet_export, "MAX_COLUMNS", 5)
    live = start_collector()
    for run in range(3):
        records = [{"step": 0, "scalars": {f"s{run}/{place}": 1.0 for place in range(2)}}]
        live.send(run=f"r{run}", project="p", records=records)
    answer = live.pool.request("GET", f"{live.url}/api/v1/export", fields={"project": "p", "format": "parquet"})
    assert (answer.status, answer.json()["error"]) == (422, "InvalidField")
    assert "format=jsonl" in answer.json()["detail"]
    answer = live.pool.request("GET", f"{live.url}/api/v1/export", fields={"project": "p"})
    assert (answer.status, answer.data.count(b'"rlvitals_export"')) == (200, 3)


def test_a_signal_with_the_name_of_a_parquet_column_is_refused_in_words(collector):
    """Its numbers would stand in the column of the runs' names."""
    run_id = collector.run(run="columns", records=[{"step": 0, "scalars": {"rlvitals.run": 1.0}}])
    answer = collector.pool.request("GET", f"{collector.url}/api/v1/runs/{run_id}/export", fields={"format": "parquet"})
    assert (answer.status, answer.json()["error"]) == (422, "InvalidField")
    assert "'rlvitals.run'; export with format=jsonl" in answer.json()["detail"]
    assert b'"rlvitals.run": 1.0' in collector.pool.request("GET", f"{collector.url}/api/v1/runs/{run_id}/export").data


def test_a_run_that_is_deleted_before_its_export_begins_has_no_line(start_collector, monkeypatch):
    """It was there when the request came, and is not when its row is read."""
    live = start_collector()
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])

    def find_and_delete(self, asked, exists=Runs.exists):
        found = exists(self, asked)
        monkeypatch.undo()
        assert live.pool.request("DELETE", f"{live.url}/api/v1/runs/{run_id}?force=true").status == 200
        return found

    monkeypatch.setattr(Runs, "exists", find_and_delete)
    answer = live.pool.request("GET", f"{live.url}/api/v1/runs/{run_id}/export")
    assert (answer.status, answer.data) == (200, b"")


def _download(live, run_id):
    return live.pool.request("GET", f"{live.url}/api/v1/runs/{run_id}/export", preload_content=False)


@sqlite_only
def test_an_export_beyond_those_that_may_be_under_way_is_refused_at_once(start_collector, database_url):
    """Readers that take nothing hold eight; the next gets a time to retry, and is served once one of them has gone."""
    live = start_collector()
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    enlarge_configurations(database_url, 8_000_000)  # more than the buffers of a connection hold
    with contextlib.ExitStack() as stack:
        answers = [stack.enter_context(contextlib.closing(_download(live, run_id))) for _ in range(MAX_EXPORTS)]
        assert {answer.status for answer in answers} == {200}
        refused = live.pool.request("GET", f"{live.url}/api/v1/runs/{run_id}/export")
        assert (refused.status, refused.headers["retry-after"], refused.json()["error"]) == (503, "1", "Unavailable")
        assert refused.json()["detail"].startswith("8 exports are under way")
        answers[0].close()
        eventually(lambda: live.app.state.collector.exports.count < MAX_EXPORTS)
        assert live.pool.request("GET", f"{live.url}/api/v1/runs/{run_id}/export").status == 200
    eventually(lambda: live.app.state.collector.exports.count == 0)


@sqlite_only
def test_one_key_leaves_exports_to_the_others(start_collector, database_url):
    """A reader that takes nothing may be one of a project; those of all others go on."""
    guarded = Guarded(start_collector())
    run_id = guarded.live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    enlarge_configurations(database_url, 8_000_000)
    slow, other, path = guarded.key("read"), guarded.key("read"), f"/api/v1/runs/{run_id}/export"
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_EXPORTS_OF_ONE):
            answer = stack.enter_context(contextlib.closing(guarded.ask("GET", path, slow, preload_content=False)))
            assert answer.status == 200
        refused = guarded.ask("GET", path, slow)
        assert (refused.status, refused.json()["error"]) == (503, "Unavailable")
        assert refused.json()["detail"].startswith("3 requests of this kind are under way with this key")
        assert guarded.ask("GET", path, other).status == 200


def test_the_command_waits_while_as_many_exports_as_may_be_are_under_way(start_collector, tmp_path, monkeypatch):
    """A script that exports twenty runs at once has twenty files."""
    live = start_collector()
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    waits = []
    with contextlib.ExitStack() as others:
        for _ in range(MAX_EXPORTS):
            others.enter_context(live.app.state.collector.exports.admit())

        def wait(seconds):
            waits.append(seconds)
            others.close()

        monkeypatch.setattr(repeated_requests, "sleep", wait)
        assert b'"step": 0' in _export(live, run_id, tmp_path / "r.jsonl").read_bytes()
    assert waits == [1]


def test_two_exports_to_one_file_spoil_neither_each_other_nor_a_file_of_the_user(collector, run_name, tmp_path):
    """The file is that of the export that ended last, whole, and nothing else is left beside it."""
    run_id = collector.run(run=run_name, records=[{"step": step, "scalars": {"a": 1.0}} for step in range(200)])
    other = tmp_path / "r.jsonl.partial"
    other.write_text("the user's own")
    file = tmp_path / "r.jsonl"

    def export(_):  # without Typer, which sets a variable of the process and takes it back
        return export_command.run(run_id=run_id, output=file, url=collector.url)

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(export, range(4))) == [0] * 4
    assert file.read_bytes().count(b'"step"') == 200
    assert other.read_text() == "the user's own"
    assert sorted(tmp_path.iterdir()) == [file, other]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_exports_that_take_long_keep_no_other_reader_waiting(start_collector, database_url):
    """The database keeps all of them waiting, and a list is read meanwhile."""
    live = start_collector()
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    sizes = []

    def export_run():
        with contextlib.suppress(urllib3.exceptions.HTTPError):  # where the database has refused to wait any longer
            sizes.append(len(_download(live, run_id).read()))

    threads = [threading.Thread(target=export_run) for _ in range(MAX_EXPORTS)]
    with psycopg.connect(database_url.replace("+psycopg", "")) as blocker:
        blocker.execute("LOCK TABLE acknowledgements IN ACCESS EXCLUSIVE MODE")
        for thread in threads:
            thread.start()
        eventually(lambda: live.app.state.collector.exports.count == MAX_EXPORTS)
        assert live.get("/silences")["items"] == []
        assert sizes == []
    for thread in threads:
        thread.join()
    assert len(set(sizes)) == 1


@pytest.mark.parametrize("change", ["delete", "delete and begin again", "reset", "reset and begin again", "thin"])
def test_a_file_whose_run_is_deleted_reset_or_thinned_meanwhile_does_not_end_as_if_it_were_whole(
    start_collector, change, monkeypatch
):
    """The download breaks off, so that nobody takes a part of the history for the whole."""
    monkeypatch.setattr(run_pages, "STEPS_PER_PAGE", 10)
    monkeypatch.setattr(parquet_export, "VALUES_PER_GROUP", 10)
    live = start_collector()
    records = [{"step": step, "scalars": {"a": 1.0}} for step in range(50)]
    for form, write in (("jsonl", export_jsonl), ("parquet", parquet_export.export_parquet)):
        for attempt in (1, 2):
            run_id = live.run(run=form, attempt=attempt, records=records)
        eventually(lambda run_id=run_id: live.is_projected(run_id))  # a receipt does not wait behind another run
        parts = write(live.app.state.collector.store, [run_id])
        begun = [next(parts), next(parts)]
        assert all(begun)
        _change(live, run_id, change)
        for attempt in (1, 2) if "again" in change else ():
            body = {"schema_version": wire.SCHEMA_VERSION, "run": form, "attempt": attempt, "records": records}
            batch = json.dumps(body).encode()
            eventually(lambda batch=batch: live.post(batch).status == 200)
        with pytest.raises(UnknownRun if "delete" in change else Unavailable):
            list(parts)


def _change(live, run_id, change):
    address = f"{live.url}/api/v1/runs/{run_id}"
    if "delete" in change:
        assert live.pool.request("DELETE", f"{address}?force=true").status == 200
    elif "reset" in change:
        assert live.pool.request("POST", f"{address}/reset", json={"attempt": 1}).status == 200
    else:
        with live.app.state.collector.store.write() as repositories:
            assert repositories.step_thinning.thin_steps(run_id, most=10)[0]


def test_a_parquet_file_ends_where_its_run_ended_when_it_began(start_collector, monkeypatch):
    """A later step may have a signal that has no column, and an acknowledgement that was not read."""
    monkeypatch.setattr(run_pages, "STEPS_PER_PAGE", 10)
    monkeypatch.setattr(parquet_export, "VALUES_PER_GROUP", 10)
    live = start_collector()
    run_id = live.run(run="r", records=[{"step": step, "scalars": {"a": 1.0}} for step in range(50)])
    parts = parquet_export.export_parquet(live.app.state.collector.store, [run_id])
    begun = next(parts)
    live.send(run="r", records=[{"step": step, "scalars": {"a": 1.0, "b": 2.0}} for step in range(50, 60)])
    live.send(run="r", attempt=2, schema_version=2, records=[{"step": 20, "scalars": {"a": 3.0}}])
    table = parquet.read_table(io.BytesIO(b"".join([begun, *parts])))
    assert table["rlvitals.step"].to_pylist() == list(range(50))
    assert set(table["rlvitals.attempt"].to_pylist()) == {1}


def test_configurations_of_many_runs_do_not_fill_the_head_of_a_parquet_file(start_collector, monkeypatch):
    """They stand in the file's head, which is held as a whole, so that their bytes are bounded."""
    monkeypatch.setattr(parquet_export, "MAX_HEADING_BYTES", 1_000)
    live = start_collector()
    for run in range(3):
        live.send(run=f"r{run}", project="p", config={"a": "x" * 500}, records=[{"step": 0, "scalars": {"a": 1.0}}])
    answer = live.pool.request("GET", f"{live.url}/api/v1/export", fields={"project": "p", "format": "parquet"})
    assert (answer.status, "format=jsonl" in answer.json()["detail"]) == (422, True)


def test_small_runs_share_row_groups(start_collector, monkeypatch):
    """The writer holds a description of each row group to the end: there is not one for each of many small runs.

    A group has a limited number of runs, because reading many thousands takes longer than a client waits for bytes.
    """
    monkeypatch.setattr(parquet_export, "RUNS_PER_GROUP", 3)
    live = start_collector()
    for run in range(5):
        live.send(run=f"r{run}", project="p", records=[{"step": 0, "scalars": {"a": float(run)}}])
    eventually(lambda: [run["last_step"] for run in live.get("/runs", project="p")["items"]] == [0] * 5)
    answer = live.pool.request("GET", f"{live.url}/api/v1/export", fields={"project": "p", "format": "parquet"})
    file = parquet.ParquetFile(io.BytesIO(answer.data))
    assert [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)] == [3, 2]
    assert file.read().column("a").to_pylist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_the_first_bytes_of_a_parquet_file_do_not_wait_for_its_rows(start_collector):
    """A client gives up if nothing arrives while the steps of many runs are read."""
    live = start_collector()
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    store = live.app.state.collector.store
    begun = parquet_export.export_parquet(store, [run_id])
    assert next(begun) == b"PAR1"
    with store.write() as repositories:
        repositories.deletion.begin_deletion([run_id], now=0.0)
    with pytest.raises(UnknownRun):
        next(begun)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.dictionaries(st.sampled_from(["a", "kl", "ß/x"]), st.floats(), min_size=1), max_size=12),
    form=st.sampled_from(FORMATS),
)
def test_every_number_survives_an_export(collector, tmp_path, values, form):
    """NaN, infinities and signals that were not observed at a step come back as they were."""
    name = f"numbers-{abs(hash(str(values)))}-{form}"
    records = [{"step": step, "scalars": {k: _spelled(v) for k, v in each.items()}} for step, each in enumerate(values)]
    run_id = collector.run(run=name, records=records)
    (log,) = find_logs([_export(collector, run_id, tmp_path / f"{name}.{form}")]) if values else ({},)
    rows = [dict(row) for row in log.read(ReadReport())] if values else []
    assert [{k: repr(v) for k, v in row.items()} for row in rows] == [
        {k: repr(v) for k, v in each.items()} for each in values
    ]


def _spelled(value):
    return value if np.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]


def test_an_export_of_what_is_not_there_is_refused_in_one_line(collector, tmp_path, capsys):
    """No file is left."""
    for ask in (["nobody"], ["--project", "nobody"], [], ["a", "--project", "b"]):
        assert main(["export", *ask, "-o", str(tmp_path / "x.jsonl"), "--url", collector.url]) == 1
    assert main(["export", "a", "-o", str(tmp_path / "x.csv"), "--url", collector.url]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 5
    assert list(tmp_path.iterdir()) == []


def test_an_exported_line_holds_what_people_look_for(recorded, tmp_path):
    """The configuration, the acknowledgements with their notes, the phases and the alerts are in the JSON lines."""
    live, run_id = recorded
    lines = [json.loads(line) for line in _export(live, run_id, tmp_path / "r.jsonl").read_text().splitlines()]
    assert (lines[0]["run"], lines[0]["project"], lines[0]["config"]) == ("recorded", "a b", {"lr": 1e-6})
    assert [line["acknowledged"][0]["by"] for line in lines if "acknowledged" in line] == ["a"]
    phases, alerts = _findings(live, run_id)
    assert [line["phase"] for line in lines if "from_step" in line] == [phase["phase"] for phase in phases]
    assert sum("alert" in line for line in lines) == len(alerts)
