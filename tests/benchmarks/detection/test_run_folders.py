"""Runs are found in a corpus."""

import gzip

import pytest

from benchmarks.detection.suites.real_logs.run_folders import run_paths
from monitor_server.importers.corpus import read_meta


def write_run(folder):
    """Write a run folder as a corpus holds it."""
    folder.mkdir()
    (folder / "data.jsonl").write_text('{"step": 1}\n')


def test_a_folder_of_runs_and_a_single_run_are_both_a_corpus(tmp_path):
    """Runs come in the order of their names; other files are left alone."""
    for name in ("b", "a"):
        write_run(tmp_path / name)
    (tmp_path / "a" / "meta.json").write_text('{"signals": {"reward": "x"}}')
    (tmp_path / "labels.csv").write_text("run\n")
    assert [folder.name for folder in run_paths(tmp_path)] == ["a", "b"]
    assert run_paths(tmp_path / "a") == [tmp_path / "a"]
    assert read_meta(tmp_path / "a") == {"signals": {"reward": "x"}}
    assert read_meta(tmp_path / "b") == {}


def test_a_log_alone_and_a_folder_of_logs_are_corpora_too(tmp_path):
    """Files count where there is no run folder beside them."""
    for name in ("b.jsonl", "a.jsonl.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b'{"step": 1}\n') if name.endswith("gz") else b'{"step": 1}\n')
    (tmp_path / "notes.txt").write_text("none\n")
    assert [path.name for path in run_paths(tmp_path)] == ["a.jsonl.gz", "b.jsonl"]
    assert run_paths(tmp_path / "b.jsonl") == [tmp_path / "b.jsonl"]
    write_run(tmp_path / "run")
    assert run_paths(tmp_path) == [tmp_path / "run"]


def test_an_empty_folder_is_an_error_that_says_what_is_expected(tmp_path):
    """The message names the folder and the file looked for."""
    with pytest.raises(FileNotFoundError, match=r"data\.jsonl\.gz"):
        run_paths(tmp_path)
