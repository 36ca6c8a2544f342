"""`rlvitals doctor`: one line for each thing that it examined, and the remedy."""

import contextlib
import json
import re
import socket
import sqlite3
import threading
from importlib.metadata import version
from pathlib import Path

import pytest
import sqlalchemy

from monitor_server.commands.doctor.collector_findings import check_status
from monitor_server.commands.doctor.database_findings import check_clock, check_disk, check_server
from monitor_server.commands.doctor.findings import Level
from monitor_server.commands.doctor.settings_findings import OTHERS, check_settings
from monitor_server.commands.main import main
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from monitor_server.settings import Settings
from monitor_server.store.database_state import DatabaseState
from monitor_server.store.schema.version import newest_schema
from tests.live import eventually
from trainer_hooks import wire
from trainer_hooks.delivery.http import HttpTransport

GIBIBYTE = 1024**3


@pytest.fixture
def examine(capsys):
    """Run the command with its findings as JSON, and return its exit status and the findings by their subjects."""

    def run(**options):
        arguments = [f"--{name}={value}" for name, value in options.items()]
        status = main(["doctor", "--json", *arguments])
        found = {}
        for finding in json.loads(capsys.readouterr().out):
            assert finding["advice"] or finding["level"] == "ok", finding  # every finding that is not ok has advice
            found.setdefault(finding["about"], []).append(finding)
        return status, found

    return run


def levels(findings):
    """Return the levels of some findings."""
    return [finding["level"] for finding in findings]


def test_a_healthy_collector_has_no_problem(start_collector, database_url, examine):
    """Settings, database, schema, disk, clock, backlog, keys, and the version of the trainer that has sent."""
    live = start_collector()
    batch = wire.Batch(
        schema_version=wire.SCHEMA_VERSION, run="r", project="p", attempt=1, rank=0, world_size=1, records=[]
    )
    HttpTransport(live.url).send(wire.encode(batch))
    status, found = examine(url=live.url, database=database_url)
    assert status == 0
    assert {"settings", "database", "schema", "clock", "collector", "versions", "backlog", "keys"} <= set(found)
    assert [text["text"] for text in found["schema"]] == [f"{newest_schema()}, the newest"]
    assert f"trainers: {version('rlvitals')} (1 batches)" in found["versions"][0]["text"]
    assert levels(found["versions"] + found["backlog"] + found["keys"]) == ["ok", "ok", "ok"]


def test_the_terminal_shows_a_line_for_each_finding_and_its_advice(start_collector, database_url, capsys):
    """The level comes first, so that findings that are not ok are easy to see."""
    live = start_collector()
    assert main(["doctor", "--url", live.url, "--database", database_url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r"(ok|not observed|warning|problem) +\w+: |  +→ ", line) for line in lines), lines
    assert [line for line in lines if "answers" in line]


@pytest.mark.parametrize(
    ("schema", "expected"), [("0011", ("warning", "rlvitals backup")), ("9999", ("problem", "upgrade rlvitals"))]
)
def test_another_schema_is_named_and_not_changed(schema, expected, start_collector, database_url, examine):
    """The next start of a collector migrates an older one; this version cannot read a newer one.

    The collector that runs on the database meanwhile is a problem of its own.
    """
    level, advice = expected
    live = start_collector()
    engine = sqlalchemy.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE alembic_version SET version_num = :schema"), {"schema": schema})
    _, found = examine(url=live.url, database=database_url)
    assert (levels(found["schema"]), advice in found["schema"][0]["advice"]) == ([level], True)
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT version_num FROM alembic_version")).scalar_one() == schema
    engine.dispose()


def test_an_address_that_every_other_command_refuses_is_a_problem(start_collector, database_url, examine):
    """A trainer with the same variable ends at its start."""
    status, found = examine(url=start_collector().url.removeprefix("http://"), database=database_url)
    assert (status, levels(found["collector"])) == (1, ["problem"])
    assert "must look like http://127.0.0.1:8600" in found["collector"][0]["text"]


def test_a_database_that_is_not_there_is_not_observed_and_not_created(tmp_path, examine, unused_port):
    """The address has no collector either, which is a problem."""
    file = tmp_path / "none.db"
    status, found = examine(url=f"http://127.0.0.1:{unused_port}", database=f"sqlite:///{file}")
    assert status == 1
    assert (levels(found["database"]), levels(found["collector"])) == (["not observed"], ["problem"])
    assert "rlvitals serve" in found["collector"][0]["advice"]
    assert not file.exists()


@pytest.mark.parametrize("given", ["not a URL", "sqlite:///{file}", "postgresql+psycopg://u:secret@127.0.0.1:{port}/d"])
def test_a_database_that_cannot_be_used_is_a_problem(given, tmp_path, examine, unused_port):
    """It is distinguished from one that is missing, and no password is printed."""
    file = tmp_path / "a.db"
    file.write_text("this is no database, and it is long enough to be read as one" * 20)
    url = given.format(file=file, port=unused_port)
    status, found = examine(url=f"http://127.0.0.1:{unused_port}", database=url)
    assert (status, levels(found["database"])) == (1, ["problem"])
    assert "secret" not in json.dumps(found)


def test_a_name_that_no_setting_has_is_named_with_the_nearest(monkeypatch):
    """A misspelt variable has no effect, though its author expects one."""
    monkeypatch.setenv("RLVITALS_DATABSE_URL", "sqlite:///mine.db")
    monkeypatch.setenv("RLVITALS_FOO", "1")
    monkeypatch.setenv("RLVITALS_PORT", "many")
    monkeypatch.setenv("rlvitals_prot", "1")
    unknown, near_none, small, unusable = check_settings()
    assert (unknown.level, unknown.advice) == (Level.WARNING, "did you mean RLVITALS_DATABASE_URL?")
    assert near_none.advice == "docs/configuration.md lists all settings"
    assert (small.level, small.advice) == (Level.WARNING, "did you mean RLVITALS_PORT?")
    assert (unusable.level, "RLVITALS_PORT" in unusable.text) == (Level.PROBLEM, True)


def test_the_values_of_trainers_are_not_said_to_be_usable():
    """Only the collector's variables are read; a trainer checks its own at its start."""
    (finding,) = check_settings({"RLVITALS_TEXTS": "maybe", "RLVITALS_URL": "nowhere", "RLVITALS_LOG_LEVEL": "info"})
    assert finding.text == (
        "the environment sets 1 of the collector, all can be used; 2 of trainers or of a separate dashboard are not "
        "checked"
    )


def test_every_documented_variable_is_known():
    """The doctor knows exactly the variables that docs/configuration.md lists."""
    text = (Path(__file__).parents[4] / "docs" / "configuration.md").read_text()
    documented = {name for name in re.findall(r"RLVITALS_[A-Z_]+", text) if not name.endswith("_")}
    assert documented == {f"RLVITALS_{name.upper()}" for name in Settings.model_fields} | OTHERS


def test_a_setting_that_cannot_be_used_leaves_the_rest_to_be_looked_at(start_collector, monkeypatch, examine):
    """The address of the database is then unknown, which is not observed."""
    live = start_collector()
    monkeypatch.setenv("RLVITALS_PORT", "many")
    status, found = examine(url=live.url)
    assert (status, levels(found["settings"]), levels(found["database"])) == (1, ["problem"], ["not observed"])
    assert levels(found["collector"]) == ["ok"]


def test_keys_that_expire_soon_are_named(guarded, database_url, examine, monkeypatch):
    """Two weeks before, so that it can be replaced in time."""
    now = guarded.live.app.state.collector.clock()
    monkeypatch.setenv("RLVITALS_API_KEY", guarded.key("admin", name="mine"))
    guarded.key("ingest", name="trainer", expires_at=now + 3 * 86_400)
    guarded.key("ingest", name="later", expires_at=now + 30 * 86_400)
    _, found = examine(url=guarded.live.url, database=database_url)
    assert levels(found["keys"]) == ["warning"]
    assert found["keys"][0]["text"] == "of 3 keys these expire within 14 days: trainer"


@pytest.mark.parametrize(("given", "expected"), [
    (None, ("not observed", "RLVITALS_API_KEY")),
    (("ingest", None), ("not observed", "scope read")),
    (("read", "ours"), ("not observed", "not confined to a project")),
    ("rlv_" + "0" * 64, ("problem", "RLVITALS_API_KEY")),
])  # fmt: skip
def test_what_a_key_does_not_show_is_not_observed(given, expected, guarded, examine, monkeypatch):
    """A key that is not valid is a problem, because a trainer that has it sends nothing."""
    level, advice = expected
    guarded.key("admin")
    if given is not None:
        key = given if isinstance(given, str) else guarded.key(given[0], project=given[1])
        monkeypatch.setenv("RLVITALS_API_KEY", key)
    status, found = examine(url=guarded.live.url)
    assert (levels(found["status"]), advice in found["status"][0]["advice"]) == ([level], True)
    assert status == int(level == "problem")


def test_a_run_that_cannot_be_processed_is_a_problem(start_collector, database_url, examine):
    """Its records are stored, and no detector reads them."""
    live = start_collector(role="ingest")  # a projector would try the run again
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    engine = sqlalchemy.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE runs SET quarantined_at = 1 WHERE id = :id"), {"id": run_id})
    engine.dispose()
    status, found = examine(url=live.url, database=database_url)
    assert (status, levels(found["backlog"])) == (1, ["problem"])


def test_a_server_that_is_no_collector_is_a_problem(examine, tmp_path):
    """It answers something else, or nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = server.getsockname()[1]

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")

        thread = threading.Thread(target=answer)
        thread.start()
        status, found = examine(url=f"http://127.0.0.1:{port}", database=f"sqlite:///{tmp_path / 'none.db'}")
        thread.join()
    assert (status, levels(found["collector"])) == (1, ["problem"])
    assert "404" in found["collector"][0]["text"]


REPORTS = [
    ({"failing_channels": ["pager"]}, "notifications", "problem", "`rlvitals notifications list` or the log says why"),
    ({"notifications_problem": "a name is taken"}, "notifications", "problem", "before the next start"),
    ({"rules_file_problem": "a name is taken"}, "rules", "problem", "rlvitals rules list"),
    ({"unprojected_records": 20_000}, "backlog", "warning", "docs/scaling.md"),
    ({"quarantined_runs": 1}, "backlog", "problem", "rlvitals runs --reset RUN"),
    ({"sdk_versions": {"0.0.1": 3}}, "versions", "warning", "upgrade all to"),
    ({"refused_batches": {"later": 9, "schema": 2}}, "batches", "warning", "rlvitalsbatchesrefused.md"),
    ({"version": "99.0"}, "versions", "warning", "upgrade all to 99.0:"),
    ({"version": "99.0.9", "sdk_versions": {"99.0.10": 1}}, "versions", "warning", "all to 99.0.10, trainers first:"),
    ({"clock_offset_seconds": 30.0}, "clock", "warning", "restart the collector"),
    ({"time": 1.0}, "clock", "warning", "NTP"),
    ({"database": {"free_bytes": 1, "size_bytes": 1}}, "disk", "problem", "make space now"),
    ({"keys": {"valid": 1, "expiring": ["trainer"]}}, "keys", "warning", "rlvitals keys create"),
]  # fmt: skip


def test_what_a_collector_reports_of_itself_comes_with_what_to_do(start_collector):
    """One part of a healthy collector's status is changed, and one finding is not ok."""
    healthy = start_collector().get("/status")
    for change, about, level, advice in REPORTS:
        (finding,) = [each for each in check_status(healthy | change) if each.level != Level.OK]
        assert (finding.about, finding.level) == (about, level)
        assert advice in finding.advice
    found = check_status(healthy | {"refused_batches": {"later": 9}})
    assert any("none was refused for good since its start; 9 were put off (503)" in each.text for each in found)


def test_a_collector_that_cannot_write_is_not_ready(migrated_sqlite, start_collector, tmp_path, examine):
    """Its database file has gone; the doctor says so, and where to look."""
    folder = tmp_path / "gone"
    folder.mkdir()
    url = migrated_sqlite(folder)
    live = start_collector(database_url=url)
    Path(url.removeprefix("sqlite:///")).unlink()
    status, found = examine(url=live.url, database=url)
    assert (status, levels(found["collector"]), levels(found["database"])) == (1, ["ok", "problem"], ["not observed"])
    assert "was removed" in found["collector"][1]["text"]


def test_a_database_of_somebody_else_is_a_warning(tmp_path, examine, unused_port):
    """It answers, and has none of our tables."""
    file = tmp_path / "others.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE theirs (id INTEGER)")
    _, found = examine(url=f"http://127.0.0.1:{unused_port}", database=f"sqlite:///{file}")
    assert (levels(found["database"]), levels(found["schema"])) == (["ok"], ["warning"])
    assert "check the address" in found["schema"][0]["advice"]


def test_detectors_that_differ_from_those_of_the_last_judgement_are_a_warning(
    start_collector, database_url, examine, tmp_path, monkeypatch
):
    """Nothing is said before a judgement, nor where the same detectors judged; a new calibration is another set."""
    live = start_collector()
    records = [{"step": step, "scalars": {"loss/policy": 0.01 if step < 30 else 2e5}} for step in range(40)]
    run_id = live.run(run="judged", records=records)
    eventually(lambda: live.get(f"/runs/{run_id}/alerts", severity="critical")["items"])
    (alert,) = live.get(f"/runs/{run_id}/alerts", severity="critical")["items"]
    _, found = examine(url=live.url, database=database_url)
    assert [each["text"] for each in found["detection"]] == [f"the detectors are {DETECTOR_VERSION}"]
    judgement = f"{live.url}/api/v1/alerts/{alert['id']}/judgement"
    assert live.pool.request("POST", judgement, json={"is_right": True}).status == 200
    _, found = examine(url=live.url, database=database_url)
    assert levels(found["detection"]) == ["ok"]
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"id": "own-2", "detectors": DETECTOR_VERSION, "profiles": {}}))
    monkeypatch.setenv("RLVITALS_CALIBRATION", str(file))
    _, found = examine(url=live.url, database=database_url)
    (finding,) = found["detection"]
    assert finding["level"] == "warning"
    assert f"{DETECTOR_VERSION} with own-2" in finding["text"]
    assert f"judged last was found by {DETECTOR_VERSION}" in finding["text"]
    assert "rlvitals reassess" in finding["advice"]


def test_a_calibration_of_other_detectors_is_a_problem_before_the_collector_starts(
    tmp_path, examine, unused_port, monkeypatch
):
    """The start would end with it; the doctor needs neither a collector nor a database to say so."""
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"id": "own-1", "detectors": "builtin-0", "profiles": {}}))
    monkeypatch.setenv("RLVITALS_CALIBRATION", str(file))
    _, found = examine(url=f"http://127.0.0.1:{unused_port}", database=f"sqlite:///{tmp_path / 'none.db'}")
    (finding,) = found["detection"]
    assert finding["level"] == "problem"
    assert "got builtin-0" in finding["text"]
    assert "rlvitals calibrate" in finding["advice"]


@pytest.mark.parametrize(
    ("server", "level"), [("14.9", "warning"), ("15.1", "ok"), ("18.0", "ok"), ("19.1", "warning")]
)
def test_a_postgresql_that_was_not_tested_is_a_warning(server, level):
    """Older and newer ones may work."""
    state = DatabaseState(
        kind="postgresql", server_version=server, schema_version="0001", size_bytes=0, free_bytes=None, clock=None
    )
    assert check_server(state).level == level


@pytest.mark.parametrize(
    ("free", "size", "level"),
    [
        (50 * GIBIBYTE, GIBIBYTE, "ok"),
        (2 * GIBIBYTE, 3 * GIBIBYTE, "warning"),
        (GIBIBYTE // 2, 0, "warning"),
        (1, 0, "problem"),
    ],
)
def test_the_disk_must_hold_what_comes_and_a_backup(free, size, level):
    """A full disk is a problem, and one that is too small for a copy of the database is a warning."""
    assert check_disk(free, size).level == level


def test_the_space_of_a_small_disk_is_stated_in_mebibytes():
    """As 0.0 GiB it would say nothing."""
    assert check_disk(20 * GIBIBYTE // 1024, 3 * GIBIBYTE).text == "20.0 MiB are free, the database has 3.0 GiB"


def test_clocks_must_agree():
    """Five seconds are as near as an unsynchronised machine may be."""
    assert check_clock("its", -5.0).level == Level.OK
    assert check_clock("its", 7200.0).text == "its clock is 7,200 s ahead of this machine's"
    assert check_clock("its", -7200.0).text == "its clock is 7,200 s behind this machine's"
