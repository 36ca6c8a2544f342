"""Run folders become observations."""

import gzip
import json

from monitor_server.importers.search.logs import find_logs
from tests.recorded_runs import read_run


def write_run(folder, rows, meta=None):
    """Write a run folder as a corpus holds it."""
    folder.mkdir()
    with gzip.open(folder / "data.jsonl.gz", "wt") as file:
        file.writelines((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    if meta is not None:
        (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def test_rows_of_one_step_are_one_observation(tmp_path):
    """A summary row of a step adds missing values and changes nothing."""
    run = write_run(tmp_path / "a", [{"step": 5, "reward": 0.1}, {"step": 5, "kl": 0.2, "reward": 9.0}])
    assert [(o.step, o.signals) for o in read_run(run)] == [(5, {"reward/mean": 0.1, "kl/ref": 0.2})]


def test_a_step_that_goes_back_starts_an_attempt(tmp_path):
    """A log appended to after a resume holds two attempts."""
    run = write_run(tmp_path / "a", [{"step": s, "reward": 0.1} for s in (1, 2, 3, 2, 3)])
    assert [(o.attempt, o.step) for o in read_run(run)] == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3)]


def test_an_attempt_that_the_log_tells_begins_where_it_tells_it(tmp_path):
    """A resume at the very step at which the log ended, at a later one, and at an earlier one, which tells it too."""
    rows = [(7, 1), (7, 2), (8, 2), (8, 3), (9, 5), (10, 4), (10, 5)]
    run = write_run(tmp_path / "a", [{"step": step, "attempt": attempt, "reward": step} for attempt, step in rows])
    assert [(o.attempt, o.step) for o in read_run(run)] == [
        (1, 1), (1, 2), (2, 2), (2, 3), (3, 5), (4, 4), (4, 5),
    ]  # fmt: skip


def test_rows_without_a_step_are_counted(tmp_path):
    """Console logs have row numbers only, and some write a share of an epoch where a step should stand."""
    run = write_run(tmp_path / "a", [{"reward": 0.1}, {"step": 0.25, "reward": 0.2}, {"step": 0.5, "reward": 0.3}])
    assert [o.step for o in read_run(run)] == [0, 1, 2]


def test_a_broken_line_costs_only_itself(tmp_path):
    """A line that is not a JSON object is skipped."""
    run = write_run(tmp_path / "a", [{"step": 1, "reward": 0.1}, '{"step": 2, "rew', "[1]", {"step": 3, "reward": 0.3}])
    assert [o.step for o in read_run(run)] == [1, 3]


def test_a_log_cut_in_the_middle_of_the_gzip_stream_gives_its_beginning(tmp_path):
    """A truncated file is read up to its damaged end."""
    run = write_run(tmp_path / "a", [{"step": s, "reward": 0.1 * s} for s in range(2000)])
    path = run / "data.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-2000])
    assert 0 < len(read_run(run)) < 2000


def test_a_short_name_that_stands_for_no_key_is_passed_over(tmp_path):
    """A list cannot be the key of a row, and the other names are used."""
    meta = {"signals": {"reward": ["a"], "kl": {"b": 1}, "entropy": None, "loss": "own"}}
    run = write_run(tmp_path / "a", [{"step": 1, "own": 0.5}], meta)
    assert [step.signals for step in read_run(run)] == [{"loss/policy": 0.5}]
    (log,) = find_logs([run])
    assert log.aliases == {"loss": "own"}
