"""Files and folders that cannot be read, in a folder that is searched: each is named, and costs only itself."""

import gzip
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from monitor_server.commands.logs.check import EXIT_NOT_OBSERVED
from monitor_server.commands.main import main
from monitor_server.importers.formats import sqlite
from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.search import folders
from monitor_server.importers.search.logs import find_logs
from monitor_server.log_check import assert_healthy
from tests.privileges import without_privileges


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with one healthy log, as the working directory: its parents need not be readable then."""
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "healthy.jsonl").write_text("".join(f'{{"step": {step}, "reward": 0.5}}\n' for step in range(40)))
    return tmp_path


def add_locked_database(folder):
    """Write a database in the folder and return the connection that keeps it locked."""
    connection = sqlite3.connect(folder / "runs.db")
    connection.execute("CREATE TABLE metrics (run_name TEXT, step INTEGER, metrics TEXT)")
    connection.commit()
    connection.execute("BEGIN EXCLUSIVE")
    return connection


def test_what_a_user_may_not_read_is_named_and_the_rest_is_found(folder):
    """A file and a folder without permission beside a log."""
    (folder / "secret.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    (folder / "secret.jsonl").chmod(0)
    (folder / "closed").mkdir(mode=0)
    reasons = []
    try:
        with without_privileges():
            found = find_logs([Path()], passed_over=reasons.append)
            with pytest.raises(LogError, match=r"closed/run\.jsonl must .*Permission denied"):
                find_logs([Path("closed/run.jsonl")])
    finally:
        (folder / "closed").chmod(0o755)
    assert [log.name for log in found] == ["healthy"]
    assert reasons == [
        "secret.jsonl was passed over: it cannot be read (Permission denied)",
        "closed cannot be searched: Permission denied",
    ]


def test_a_locked_database_in_a_folder_is_named_and_no_verdict_passes_over_it(folder, capsys, monkeypatch):
    """The report of the other log stands; a job that must fail on alarms does not pass on half of the logs."""
    monkeypatch.setattr(sqlite, "LOCK_SECONDS", 0.05)
    with closing(add_locked_database(folder)):
        assert main(["check", str(folder)]) == 0
        captured = capsys.readouterr()
        assert "another program keeps this SQLite database locked" in captured.err
        assert "healthy" in captured.out
        assert main(["check", str(folder), "--fail-on", "critical"]) == EXIT_NOT_OBSERVED
        with pytest.raises(LogError, match=r"runs\.db was passed over: another program keeps"):
            assert_healthy(folder)
        (folder / "healthy.jsonl").unlink()
        with pytest.raises(LogError, match=r"found none; .*runs\.db was passed over: another program keeps"):
            find_logs([folder])


def test_logs_that_are_damaged_or_compressed_otherwise_are_named(folder):
    """They vanished from the report without a word; the ending alone makes no compressed file."""
    rows = b"".join(b'{"step": %d, "reward": 0.5}\n' % step for step in range(40))
    (folder / "plain.jsonl.gz").write_bytes(rows)
    (folder / "a.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(40))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(rows)[:10] + bytes(40))
    (folder / "c.parquet").write_bytes(b"PAR1" + bytes(40))
    reasons = []
    assert [log.name for log in find_logs([folder], passed_over=reasons.append)] == ["healthy", "plain"]
    for reason, expected in zip(reasons, ("`zstd -d`", "damaged at its beginning", "readable Parquet"), strict=True):
        assert expected in reason
    assert main(["check", str(folder), "--fail-on", "critical"]) == EXIT_NOT_OBSERVED


def test_an_archive_is_named_where_no_log_is_found(folder):
    """Beside logs it may be a saved model, as those of torch and Stable-Baselines3 are."""
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.writestr("weights", bytes(100))
    reasons = []
    assert find_logs([folder], passed_over=reasons.append)
    assert reasons == []
    (folder / "healthy.jsonl").unlink()
    with pytest.raises(LogError, match=r"found none; .*model\.zip was passed over: it is an archive"):
        find_logs([folder])


def test_other_files_of_a_project_are_no_unreadable_logs(folder):
    """A database of another program, a notebook without a table, a picture and an empty file are simply no logs."""
    with closing(sqlite3.connect(folder / "optuna.db")) as connection, connection:
        connection.execute("CREATE TABLE trials (id INTEGER)")
    (folder / "notes.ipynb").write_text('{"cells": [{"cell_type": "markdown", "source": ["text"]}], "nbformat": 4}')
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    (folder / "empty.log").touch()
    reasons = []
    assert [log.name for log in find_logs([folder], passed_over=reasons.append)] == ["healthy"]
    assert reasons == []


def test_the_heading_of_a_log_without_a_step_is_named_and_other_tables_without_a_row_are_not(folder, capsys):
    """A run that crashed before its first step does not pass, and an empty table of something else does."""
    (folder / "prices.csv").write_text("step,price\n")
    (folder / "answers.csv").write_text("question,reward\n")
    (folder / "rates.csv").write_text("step,learning_rate\n")
    (folder / "crashed.jsonl").touch()
    assert main(["check", "--fail-on", "critical", str(folder)]) == 0
    for name, heading in (("crashed.csv", "step,train/reward\n"), ("second.tsv", '"step"\t"reward"')):
        (folder / name).write_text(heading)
    assert main(["check", "--fail-on", "critical", str(folder)]) == EXIT_NOT_OBSERVED
    output = capsys.readouterr().err
    assert [output.count(f"{name} was passed over: it has the heading") for name in ("crashed.csv", "second.tsv")] == [
        1,
        1,
    ]
    assert output.count("passed over") == 2


def test_a_database_without_a_run_is_refused_in_one_line(folder, capsys):
    """An MLflow store in which nothing was logged yet."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection, connection:
        connection.execute("CREATE TABLE runs (run_uuid TEXT, name TEXT, lifecycle_stage TEXT, start_time INTEGER)")
        connection.execute(
            "CREATE TABLE metrics (key TEXT, value REAL, step INTEGER, is_nan INTEGER, run_uuid TEXT, timestamp INT)"
        )
    assert main(["check", str(folder / "mlflow.db")]) == 1
    assert "must hold at least one run; found none in it as MLflow database" in capsys.readouterr().err


def test_a_log_that_is_removed_after_it_was_found_is_refused(folder):
    """A cleaning job may be faster than the reader."""
    (log,) = find_logs([folder])
    log.path.unlink()
    with pytest.raises(LogError, match=r"healthy\.jsonl must be a readable log"):
        list(log.read(ReadReport()))


def test_a_named_log_that_may_not_be_read_is_refused_with_the_reason(folder, capsys):
    """It would be called empty otherwise."""
    (folder / "healthy.jsonl").chmod(0)
    with without_privileges():
        assert main(["check", "healthy.jsonl"]) == 1
    assert capsys.readouterr().err.startswith(
        "rlvitals: healthy.jsonl must be a log: it cannot be read (Permission denied)"
    )


def test_a_run_of_mlflow_with_a_folder_that_may_not_be_entered_is_refused_with_the_reason(folder, capsys):
    """Its metrics would be missing from the report without a word."""
    metrics = folder / "run/metrics"
    (metrics / "actor").mkdir(parents=True)
    (folder / "run/meta.yaml").touch()
    for name in ("reward", "actor/entropy"):
        (metrics / name).write_text("1000 0.5 1\n")
    for mode in (0o744, 0):
        (metrics / "actor").chmod(mode)
        with without_privileges():
            assert main(["check", "run"]) == 1
        assert "run/metrics must be a folder of metrics that may be read" in capsys.readouterr().err


def test_a_search_that_ends_early_says_so_and_reads_no_more(folder, monkeypatch):
    """A folder of millions of files would be read for hours, and a job may not pass on a part of its logs."""
    monkeypatch.setattr(folders, "MAX_ENTRIES", 10)
    for name in ("a", "b", "c", "d"):
        (folder / name).mkdir()
        for number in range(6):
            (folder / name / f"{number}.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    reasons = []
    found = find_logs([folder], passed_over=reasons.append)
    assert len(found) == 1 + 6  # the folder itself has 5 entries
    (reason,) = reasons
    assert reason.startswith(f"{folder}/b and 2 more folders of {folder} were passed over")


def test_a_search_finds_a_log_however_deep_it_lies(folder):
    """It may be of a run that collapsed. Hidden folders are not entered."""
    deep = folder.joinpath(*"123456789")
    (deep / ".git").mkdir(parents=True)
    for name in ("log.jsonl", ".git/hidden.jsonl"):
        (deep / name).write_text('{"step": 1, "reward": 0.5}\n')
    assert [log.name for log in find_logs([folder])] == ["healthy", "log"]
