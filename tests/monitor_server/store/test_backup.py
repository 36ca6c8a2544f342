"""A backup is taken while a collector writes; the restored one gives the same answers and goes on."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
import sqlalchemy

from monitor_server.commands.main import main
from monitor_server.errors import DatabaseUnusable
from monitor_server.step_processing.run_memory import compacted_runs
from monitor_server.store.database import Store
from monitor_server.store.operations import backup as backup_of_a_store
from monitor_server.store.operations.backup import back_up
from monitor_server.store.operations.inspection import inspect_database
from monitor_server.store.repositories.series import compaction
from tests.databases import sqlite_only
from tests.live import PATIENCE_SECONDS, eventually
from tests.monitor_server.conftest import ScriptedEngine
from tests.monitor_server.retention.runs import count_rows, send_everything
from tests.postgres import create_database, create_password_database, find_postgres

PATHS = ("", "/series", "/steps", "/phases", "/alerts", "/actions", "/responses", "/acknowledgements", "/attempts")


def _restore(request, database_url, backup, tmp_path):
    """Restore as docs/operations.md says, and return the URL of the new database."""
    if database_url.startswith("sqlite"):
        shutil.copy(backup, tmp_path / "restored.db")
        return f"sqlite:///{tmp_path / 'restored.db'}"
    restored = create_database(request.getfixturevalue("postgres"))
    _fill(restored, backup)
    return restored


def _fill(url, backup):
    address = url.replace("+psycopg", "")
    command = [find_postgres() / "pg_restore", "--single-transaction", "--no-owner", f"--dbname={address}", backup]
    subprocess.run(command, check=True)


def _send(live, step, **batch):
    record = {"step": step, "scalars": {"a": float(step), "warn": float(step % 50 == 7)}}
    return live.send(run="live", records=[record], **batch)


@pytest.fixture
def restore(request, database_url, tmp_path):
    """Restore a backup into a new database."""
    return lambda backup: _restore(request, database_url, backup, tmp_path)


def test_a_restored_backup_answers_the_same_and_goes_on(  # noqa: PLR0917 - fixtures
    start_collector, clock, restore, database_url, tmp_path, monkeypatch
):
    """All answers are equal; a record that is sent again is a duplicate, and a new one is detected."""
    monkeypatch.setattr(compaction, "CHUNK_STEPS", 100)
    monkeypatch.setattr(compaction, "TAIL_STEPS", 51)
    monkeypatch.setattr(compacted_runs, "COMPACTION_STEPS", 51)
    common = {"engine": ScriptedEngine, "clock": clock, "step_deadline_seconds": 1e9}
    live = start_collector(**common)
    run_id = send_everything(live, "r")
    assert count_rows(database_url, run_id)["chunk_values"] > 0
    answers = {path: live.get(f"/runs/{run_id}{path}") for path in PATHS}
    backup = tmp_path / "backup.file"
    assert main(["backup", str(backup), "--database", database_url]) == 0
    _send(live, 0)
    clock.now += 10  # the runs of the collector that the backup names as their owner are free
    restored = start_collector(database_url=restore(backup), **common)
    assert {path: restored.get(f"/runs/{run_id}{path}") for path in PATHS} == answers
    assert [run["name"] for run in restored.get("/runs")["items"]] == ["r"]
    again = restored.send(run="r", schema_version=2, records=[{"step": 3, "scalars": {"reward/mean": 0.3}}])
    assert (again["accepted"], again["duplicates"]) == (0, 1)
    rank = {"run": "r", "rank": 1, "world_size": 2}
    restored.send(records=[{"step": 261, "scalars": {"warn": 0.0}}], **rank)
    eventually(lambda: restored.get(f"/runs/{run_id}")["last_step"] == 261)  # it had waited for rank 1
    assert _send(restored, 7)["alerts"][0]["kind"] == "scripted"


def test_a_backup_says_that_it_contains_runs_that_are_being_deleted(store, append, database_url, tmp_path, capsys):
    """They are in no answer, and who makes a copy without them needs another one."""
    run_id = append()
    with store.write() as repositories:
        repositories.deletion.begin_deletion([run_id], now=1.0)
    assert main(["backup", str(tmp_path / "first.db"), "--database", database_url]) == 0
    assert "it still contains 1 deleted run," in capsys.readouterr().out
    with store.write() as repositories:
        while repositories.deletion.remove_rows(run_id, limit=250) is not None:
            pass
    assert main(["backup", str(tmp_path / "second.db"), "--database", database_url]) == 0
    assert "deleted" not in capsys.readouterr().out


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_restore_onto_a_database_with_data_changes_nothing(start_collector, database_url, tmp_path):
    """In one transaction, as docs/operations.md says; a collector that still runs on it goes on."""
    url, backup = database_url, tmp_path / "x.db"
    live = start_collector()
    run_id = _send(live, 0)["run_id"]
    assert main(["backup", str(backup), "--database", url]) == 0
    _send(live, 1)
    with pytest.raises(subprocess.CalledProcessError):
        _fill(url, backup)
    assert _send(live, 1)["duplicates"] == 1
    assert _send(live, 2)["accepted"] == 1
    assert [step["step"] for step in live.get(f"/runs/{run_id}/steps")["items"]] == [0, 1, 2]


def test_a_backup_under_load_is_one_snapshot(start_collector, scripted, restore, database_url, tmp_path):
    """Every record that was acknowledged before it began is there once, and every step that it holds is detected."""
    live = start_collector(engine=scripted)
    stop, acknowledged = threading.Event(), []

    def send_steps():
        step = 0
        while not stop.is_set():
            _send(live, step)
            acknowledged.append(step)
            step += 1

    sender = threading.Thread(target=send_steps)
    sender.start()
    try:
        while len(acknowledged) < 30:
            stop.wait(0.01)
        before = len(acknowledged)
        backup = tmp_path / "backup.file"
        assert main(["backup", str(backup), "--database", database_url]) == 0
        after = len(acknowledged)
    finally:
        stop.set()
        sender.join()
    # The runs belong to the first collector until its lease has ended, and a receipt waits as long.
    waits = {"verdict_wait_seconds": PATIENCE_SECONDS}
    restored = start_collector(database_url=restore(backup), engine=scripted, **waits)
    (run,) = restored.get("/runs")["items"]
    held = count_rows(restored.app.state.collector.settings.database_url, run["id"])
    assert before <= held["records"] <= after + 1
    eventually(lambda: restored.get(f"/runs/{run['id']}")["last_step"] == held["records"] - 1)
    steps = [step["step"] for step in restored.get(f"/runs/{run['id']}/steps", limit=1000)["items"]]
    assert steps == list(range(len(steps)))
    receipt = _send(restored, held["records"])
    assert receipt["accepted"] == 1
    eventually(lambda: restored.get(f"/runs/{run['id']}")["last_step"] == held["records"])


@pytest.fixture
def held_url(postgres):
    """The URL of a PostgreSQL database with a table that another connection has locked: pg_dump waits for it."""
    url = create_database(postgres)
    Store.open(url).close()
    with psycopg.connect(url.replace("+psycopg", "")) as holder:
        holder.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
        yield url


@sqlite_only
def test_a_backup_holds_nothing_of_what_was_deleted(start_collector, scripted, database_url, tmp_path):
    """This holds for a database whose older version left remains in its free pages."""
    live = start_collector(engine=scripted)
    live.run(run="kept", records=[{"step": 0, "scalars": {"a": 1.0}}])
    engine = sqlalchemy.create_engine(database_url)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA secure_delete = OFF")
        connection.exec_driver_sql("CREATE TABLE old AS SELECT 'bandersnatch' || hex(randomblob(5000)) AS text")
        connection.exec_driver_sql("DROP TABLE old")
        connection.commit()
    engine.dispose()
    backup = tmp_path / "backup.db"
    assert main(["backup", str(backup), "--database", database_url]) == 0
    assert b"bandersnatch" in (tmp_path / "rlvitals.db-wal").read_bytes()
    assert b"bandersnatch" not in backup.read_bytes()


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (["{tmp}/x.db", "--database", "sqlite:///{tmp}/nothing.db"], "there is no database"),
        (["{tmp}/there", "--database", "sqlite:///{tmp}/there"], "is there already"),
        (["{tmp}/no/folder/x.db", "--database", "sqlite:///{tmp}/there"], "cannot be"),
        (["{tmp}/x.db", "--database", "sqlite:///{tmp}/there"], "cannot be copied: file is not a database"),
        (["{tmp}/x.db", "--database", "nothing"], "must be a URL"),
        (["{tmp}/x.db", "--database", "postgresql+psycopg://rlvitals:hidden@127.0.0.1:{port}/x"], "Connection refused"),
    ],
)
def test_a_backup_that_cannot_be_made_is_one_line_and_leaves_nothing(ask, says, tmp_path, unused_port, capsys):
    """Status 1; no password is shown."""
    (tmp_path / "there").write_text("no database" * 100)
    given = [part.format(tmp=tmp_path, port=unused_port) for part in ask]
    assert main(["backup", *given]) == 1
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert says in error
    assert "hidden" not in error
    assert json.dumps([path.name for path in tmp_path.iterdir()]) == '["there"]'


@pytest.mark.parametrize("schema", ["apart", "Team a"])
def test_a_backup_uses_password_and_options_of_the_address(schema, postgres, tmp_path):
    """The password may be any text, and `options` names a schema; only its owner may read the backup."""
    url = create_password_database(postgres, "p@ss/w:o%r +&?#")
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
    url += "?options=" + quote('-c search_path="{}"'.format(schema.replace(" ", r"\ ")))
    Store.open(url).close()
    backup = tmp_path / "x.db"
    assert main(["backup", str(backup), "--database", url]) == 0
    listed = subprocess.run([find_postgres() / "pg_restore", "--list", backup], check=True, capture_output=True)
    assert f"TABLE DATA {schema} runs ".encode() in listed.stdout
    assert stat.filemode(backup.stat().st_mode) == "-rw-------"


def _make_foreign_tables(url):
    """Make tables as another program has them that uses Alembic, such as MLflow."""
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE runs (run_uuid VARCHAR(32))")
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('76601a5f987d'), ('0027')")
    engine.dispose()


@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_of_others_is_not_backed_up(kind, is_empty, request, tmp_path, capsys):
    """With a wrong address nobody would miss the backup until it is needed; nothing is created there either."""
    url = f"sqlite:///{tmp_path}/empty.db"
    (tmp_path / "empty.db").touch()
    if kind == "postgresql":
        url = create_database(request.getfixturevalue("postgres"))
    if not is_empty:
        _make_foreign_tables(url)
        with pytest.raises(DatabaseUnusable, match="holds the tables of another program"):
            Store.open(url)
    assert main(["backup", str(tmp_path / "x.db"), "--database", url]) == 1
    assert re.search("has no tables of rlvitals|holds the tables of another program", capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the process in /proc")
def test_two_backups_to_one_name_do_not_write_one_file(migrated_sqlite, tmp_path, capsys, held_url):
    """The first waits for a lock; the second is refused, and succeeds once the first is killed."""
    ended = []
    backup = tmp_path / "x.db"
    thread = threading.Thread(target=lambda: ended.append(main(["backup", str(backup), "--database", held_url])))
    thread.start()
    dump = eventually(lambda: _child_of("pg_dump", "--format", parent=os.getpid()))
    source = migrated_sqlite(tmp_path)
    assert main(["backup", str(backup), "--database", source]) == 1
    assert "another backup is writing" in capsys.readouterr().err
    os.kill(int(dump.name), signal.SIGKILL)
    thread.join()
    assert ended == [1]
    assert not backup.exists()
    for left in ("x.db.partial", "x.db.partial-journal"):
        backup.with_name(left).write_bytes(b"what a backup that was killed has left")
    assert main(["backup", str(backup), "--database", source]) == 0
    assert inspect_database(f"sqlite:///{backup}").schema_version is not None
    assert list(tmp_path.glob("*.partial*")) == []


def test_a_backup_that_begins_as_another_one_fails_writes_to_a_private_file(migrated_sqlite, tmp_path, monkeypatch):
    """The other one removes its file after this one has opened it, and before this one has locked it."""
    url, partial, lock = migrated_sqlite(tmp_path), tmp_path / "x.db.partial", fcntl.flock

    def remove_and_lock(*arguments):
        monkeypatch.undo()
        partial.unlink()
        lock(*arguments)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    assert back_up(url, tmp_path / "x.db").size_bytes > 0
    assert stat.S_IMODE((tmp_path / "x.db").stat().st_mode) == 0o600
    assert not partial.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="finds the process in /proc")
def test_a_backup_that_was_killed_writes_to_no_other_backup(migrated_sqlite, tmp_path, capsys, held_url):
    """Its pg_dump goes on, which waits for a lock; the next backup waits until that has ended too."""
    backup = tmp_path / "x.db"
    command = [sys.executable, "-m", "monitor_server", "backup", str(backup), "--database", held_url]
    with subprocess.Popen(command) as killed:
        dump = eventually(lambda: _child_of("pg_dump", "--format", parent=killed.pid))
        killed.kill()
    source = migrated_sqlite(tmp_path)
    assert main(["backup", str(backup), "--database", source]) == 1
    assert "another backup is writing" in capsys.readouterr().err
    os.kill(int(dump.name), signal.SIGKILL)
    eventually(lambda: main(["backup", str(backup), "--database", source]) == 0)


def test_a_backup_that_is_ended_stops_at_once_and_leaves_nothing(migrated_sqlite, tmp_path):
    """A timer with a limit or a reboot may end it every night: unfinished files would fill the disk."""
    source, backup = migrated_sqlite(tmp_path), tmp_path / "backups" / "x.db"
    partial = backup.with_name("x.db.partial")
    partial.parent.mkdir()
    rows = "WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT zeroblob(1000) FROM n"
    with contextlib.closing(sqlite3.connect(source.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(f"CREATE TABLE large AS {rows}")
    command = [sys.executable, "-m", "monitor_server", "backup", str(backup), "--database", source]

    def is_ended_early():
        """End a backup that has begun to write; whether it was ended before it had written all."""
        file = None
        with contextlib.ExitStack() as stack:
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            while process.poll() is None and (file is None or not os.fstat(file.fileno()).st_size):
                with contextlib.suppress(FileNotFoundError):
                    file = file or stack.enter_context(partial.open("rb"))
            process.send_signal(signal.SIGTERM)
            if process.wait() == 0:
                backup.unlink()
                return False
            assert (process.returncode, list(partial.parent.iterdir())) == (130, [])
            return os.fstat(file.fileno()).st_size < 60_000 * 1_000

    eventually(is_ended_early)


def test_a_backup_of_a_server_that_does_not_answer_ends(tmp_path, capsys, monkeypatch, postgres):  # noqa: ARG001
    """The server takes the connection and does not answer; the error is one line, and no file is left."""
    monkeypatch.setattr(backup_of_a_store, "CONNECT_SECONDS", 2)  # the least that libpq takes
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql+psycopg://rlvitals@127.0.0.1:{silent.getsockname()[1]}/x?sslmode=disable"
        assert main(["backup", str(tmp_path / "x.db"), "--database", url]) == 1
    assert "the database does not answer" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_backup_that_waits_for_a_lock_ends(tmp_path, capsys, monkeypatch, held_url):
    """A connection that was forgotten holds a table: the backup says so, and leaves nothing."""
    monkeypatch.setattr(backup_of_a_store, "SILENT_SECONDS", 1.0)
    assert main(["backup", str(tmp_path / "x.db"), "--database", held_url]) == 1
    said = capsys.readouterr().err
    assert "pg_dump has written nothing for 1 s" in said
    assert "holds a lock on a table" in said
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_several_lines_is_one(unused_port):
    """PostgreSQL adds a hint on a line of its own; the start and the doctor show it without its line ends."""
    url = f"postgresql+psycopg://rlvitals@127.0.0.1:{unused_port}/x"
    for ask in (Store.open, inspect_database):
        with pytest.raises(DatabaseUnusable, match=r"Connection refused Is the server running on that host") as caught:
            ask(url)
        assert str(caught.value).isprintable()


def test_a_backup_follows_no_link_that_somebody_has_left(migrated_sqlite, tmp_path, capsys):
    """In a folder that others may write to, the backup would empty the file that the link names."""
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "x.db.partial").symlink_to(other)
    assert main(["backup", str(tmp_path / "x.db"), "--database", migrated_sqlite(tmp_path)]) == 1
    assert "symbolic links" in capsys.readouterr().err
    assert other.read_text() == "kept"


@pytest.mark.parametrize(("version", "is_used"), [("99.1", True), ("9.6", False)])
def test_the_newest_pg_dump_makes_the_backup(tmp_path, capsys, monkeypatch, version, is_used, postgres):  # noqa: PLR0917
    """A server is only read by a pg_dump that is as new; the one on PATH may be newer than the distribution's."""
    program = tmp_path / "pg_dump"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "pg_dump (PostgreSQL) {version}" || echo from PATH >&2; exit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    url = create_database(postgres)
    Store.open(url).close()
    assert main(["backup", str(tmp_path / "x.db"), "--database", url]) == is_used
    assert ("from PATH" in capsys.readouterr().err) is is_used


@pytest.mark.skipif(sys.platform != "linux", reason="reads arguments and environment in /proc")
def test_a_password_in_the_query_is_no_argument_of_pg_dump(tmp_path, capsys, held_url):
    """Every user of the machine can read the arguments of a process; here it waits for a lock."""
    ended = []
    ask = ["backup", str(tmp_path / "x"), "--database", f"{held_url}?password=hidden&sslmode=disable"]
    thread = threading.Thread(target=lambda: ended.append(main(ask)))
    thread.start()
    process = eventually(lambda: _child_of("pg_dump", "--format", parent=os.getpid()))
    arguments, environment = (process / "cmdline").read_text(), (process / "environ").read_text()
    os.kill(int(process.name), signal.SIGKILL)
    thread.join()
    assert ended == [1]
    assert "sslmode=disable" in arguments
    assert "hidden" not in arguments + capsys.readouterr().err
    assert "PGPASSWORD=hidden" in environment.split("\0")


def _child_of(name, argument, *, parent):
    """Return the folder in /proc of a process that another one has started with an argument, or None."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            command, _, fields = path.read_text().partition(" (")[2].rpartition(") ")
            is_child = command == name and int(fields.split()[1]) == parent
            if is_child and argument in (path.parent / "cmdline").read_text():
                return path.parent
    return None


@pytest.mark.parametrize("name", ["file/backup.db", "b" * 300, "b\udcff"])
def test_a_destination_that_cannot_be_is_named(name, migrated_sqlite, tmp_path, tmp_path_factory):
    """Below a file, too long, or no text: an error of the backup, and nothing is left."""
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseUnusable, match=r"cannot be written|must be text in UTF-8"):
        back_up(migrated_sqlite(tmp_path_factory.mktemp("source")), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
