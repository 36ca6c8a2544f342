"""The recording of a run of one's own model by the experiments."""

import math
from dataclasses import replace

from trainer_hooks.reference.experiments.rollback_runs import rescue
from trainer_hooks.reference.experiments.run_recording import read, record


def test_a_run_of_ones_own_model_is_recorded_and_the_same_again(search_config, taught_folder, tmp_path):
    """Its environment is the search tool; the first policy's correct responses are scored at each step."""
    config = replace(search_config, model=taught_folder, probe_every=1)
    for name in ("one", "two"):
        record(config, tmp_path / f"{name}.jsonl.gz", fixed=True)
    rows = read(tmp_path / "one.jsonl.gz")
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["tools/valid_frac"] > 0.5 and row["fixed/likelihood"] < 0 for row in rows)
    assert read(tmp_path / "two.jsonl.gz") == rows


def test_a_run_of_ones_own_model_is_rescued_and_not_the_built_in_one(search_config, tmp_path, monkeypatch):
    """It is trained under a real collector; the rate loses its weights at once, which its recording has as a row."""
    monkeypatch.setenv("RLVITALS_DASHBOARD", "")  # which takes seconds to import
    lines = []
    rescue(replace(search_config, lr=1e30, entropy_bonus=0.1), tmp_path / "run.jsonl.gz", report=lines.append)
    assert any("18 questions to train on" in line for line in lines)
    (row,) = read(tmp_path / "run.jsonl.gz")
    assert (row["step"], row["attempt"]) == (1, 1)
    assert math.isnan(row["reward/mean"])
