"""Suite B on recordings made here."""

import json

from benchmarks.detection import main
from benchmarks.detection.forecast.rows import recorded_rows
from benchmarks.detection.runs import Group
from benchmarks.detection.suites.recordings import recordings


def test_recordings_carry_their_own_truth(tmp_path):
    """EMA₀.₂ of a reward of 1 that falls to 0 at step 30 lies under half from step 33 on; a flat one survives."""
    for name, rewards in (("dies.jsonl", [1.0] * 30 + [0.0] * 30), ("lives.jsonl", [1.0] * 60)):
        rows = [json.dumps({"step": step, "reward/mean": reward}) for step, reward in enumerate(rewards)]
        (tmp_path / name).write_text("\n".join(rows))
    dies, lives = recordings(tmp_path)
    assert dies.truth.collapse == 33
    assert lives.truth.group is Group.BENIGN


def test_a_run_that_was_taken_back_is_no_recording_of_suite_b(tmp_path):
    """Its rows have an attempt; a run that was left alone is the only one."""
    for name, more in (("rescued.jsonl", {"attempt": 1}), ("left.jsonl", {})):
        rows = [json.dumps({"step": step, "reward/mean": 1.0} | more) for step in range(30)]
        (tmp_path / name).write_text("\n".join(rows))
    assert [run.name for run in recordings(tmp_path)] == ["left.jsonl"]


def test_suite_b_reports_recordings(tmp_path, capsys):
    """The report has one healthy recording, one that collapses, and the baselines."""
    for name, rewards in (("dies.jsonl", [1.0] * 30 + [0.0] * 30), ("lives.jsonl", [1.0] * 60)):
        rows = [json.dumps({"step": step, "reward/mean": reward}) for step, reward in enumerate(rewards)]
        (tmp_path / name).write_text("\n".join(rows))
    assert main(["--suite", "b", "--recordings", str(tmp_path), "--no-peers"]) == 0
    assert "1 runs that survived (60 rows), 1 that collapsed" in capsys.readouterr().out


def test_no_recordings_are_reported_to_be_none(tmp_path, capsys):
    """An empty folder is no error."""
    assert main(["--suite", "b", "--recordings", str(tmp_path), "--no-peers"]) == 0
    assert "No recordings were found" in capsys.readouterr().out


def test_a_run_that_was_recorded_twice_counts_once_and_a_setting_is_left_out_as_a_whole(tmp_path):
    """A second recording has more signals; a third, of another length, is another run of the same setting."""
    for folder, more, steps in (("experiments", {}, 60), ("probes", {"decomposition/own": 1.0}, 60), ("more", {}, 50)):
        (tmp_path / folder / "runs").mkdir(parents=True)
        rows = [json.dumps({"step": step, "reward/mean": 0.5, "grad/norm": 1.0} | more) for step in range(steps)]
        (tmp_path / folder / "runs" / "grpo-seed0.jsonl").write_text("\n".join(rows))
    found = recorded_rows(tmp_path)
    assert set(found.units) == {"experiments/runs/grpo-seed0.jsonl", "more/runs/grpo-seed0.jsonl"}
    assert set(found.groups) == {"runs"}
