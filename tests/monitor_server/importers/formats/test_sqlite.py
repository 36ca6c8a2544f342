"""Databases of MLflow and Trackio that are in use, damaged or compressed."""

import gzip
import sqlite3
from contextlib import closing

import pytest

from monitor_server.importers.formats import sqlite
from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observations


@pytest.fixture
def database(tmp_path):
    """Return a Trackio database of 200 steps."""
    path = tmp_path / "p.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)"
        )
        connection.executemany(
            "INSERT INTO metrics VALUES (?, '2026-11-23T04:00:00', 'a run', ?, '{\"reward\": 0.5}')",
            [(step, step) for step in range(200)],
        )
    return path


def test_a_database_in_use_is_read_with_what_is_not_yet_in_its_file(database):
    """A tracker keeps a write-ahead log, and its open transaction hides nothing that was committed."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE metrics SET metrics = '{\"reward\": 0.75}' WHERE step = 7")
        connection.commit()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM metrics")
        (log,) = find_logs([database])
        rows = list(log.read(ReadReport()))
        connection.rollback()
    assert len(rows) == 200
    assert rows[7]["reward"] == 0.75


def test_the_trainers_own_step_is_preferred_to_trackios_count_of_calls(database):
    """Transformers logs ``train/global_step`` as a number, and leaves the count to Trackio."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "UPDATE metrics SET metrics = '{\"reward\": 0.5, \"train/global_step\": ' || (10 * step) || '}'"
        )
    (log,) = find_logs([database])
    assert [step.step for step in observations(log.read(ReadReport()))][:3] == [0, 10, 20]


def test_runs_of_trackio_that_share_a_name_are_apart(database):
    """Newer versions start a run of its own where the name exists."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("ALTER TABLE metrics ADD COLUMN run_id TEXT NOT NULL DEFAULT ''")
        connection.execute("UPDATE metrics SET run_id = step % 2, metrics = '{\"reward\": ' || (step % 2) || '}'")
    logs = find_logs([database])
    assert [log.name for log in logs] == ["a run", "a run-2"]
    for place, log in enumerate(logs):
        assert [row["reward"] for row in log.read(ReadReport())] == [place] * 100


def test_a_database_that_no_program_has_open_is_read_without_a_trace(database, tmp_path):
    """SQLite alone leaves two files beside a database in WAL mode, and fails in a folder that it may not write."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE metrics SET metrics = '{\"reward\": 0.75}' WHERE step = 7")
        connection.commit()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (log,) = find_logs([tmp_path])
    rows = list(log.read(ReadReport()))
    assert (len(rows), rows[7]["reward"]) == (200, 0.75)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert list(before) == ["p.db"]


def test_a_database_that_is_locked_damaged_or_compressed_is_refused_with_the_reason(database, tmp_path, monkeypatch):
    """A message about an unknown format would lead the reader in a wrong direction."""
    monkeypatch.setattr(sqlite, "LOCK_SECONDS", 0.05)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LogError, match="another program keeps this SQLite database locked"):
            find_logs([database])
    content = database.read_bytes()
    (tmp_path / "cut.db").write_bytes(content[: len(content) // 2])
    with pytest.raises(LogError, match=r"cut\.db must be a log: it is an SQLite database that cannot be read \(.+\)"):
        find_logs([tmp_path / "cut.db"])
    (tmp_path / "p.db.gz").write_bytes(gzip.compress(content))
    with pytest.raises(LogError, match="compressed SQLite database; decompress it first"):
        find_logs([tmp_path / "p.db.gz"])


def test_a_row_of_many_megabytes_costs_itself(database):
    """Its JSON would take twenty times its size in memory; the rows before and after it are read."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            'UPDATE metrics SET metrics = \'{"reward": 0.5, "x": "\' || hex(zeroblob(9000000)) || \'"}\' WHERE step = 7'
        )
    report = ReadReport()
    (log,) = find_logs([database])
    assert [row["_step"] for row in log.read(report)] == [step for step in range(200) if step != 7]
    assert report.problems == ["p.db, row 7 of metrics: it is longer than 16 MiB"]
