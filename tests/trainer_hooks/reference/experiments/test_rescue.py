"""Dying runs that are rolled back: their recordings, and the table of them."""

import json

import pytest

from trainer_hooks.reference.experiments.__main__ import main
from trainer_hooks.reference.experiments.rollback_runs import RESCUES, forks_path
from trainer_hooks.reference.experiments.run_recording import divergence_row, read, write
from trainer_hooks.reference.experiments.tables.forks import cost_table, forks_table
from trainer_hooks.reference.experiments.tables.rollbacks import history, rescue_table, rewinds


def rows_of(attempts):
    """A row a step, from lists of steps and rewards, an attempt each."""
    return [
        {"step": step, "reward/mean": reward, "attempt": number}
        for number, (steps, reward) in enumerate(attempts, start=1)
        for step in steps
    ]


def test_a_rewind_shows_in_the_attempts_and_the_newest_counts():
    """Twelve steps, back to ten, on to fourteen, back to eleven: the history has every step once."""
    taken = rows_of([(range(1, 13), 0.1), (range(11, 15), 0.2), (range(12, 15), 0.3)])
    assert rewinds(taken) == [(12, 10), (14, 11)]
    kept = history(taken)
    assert [row["step"] for row in kept] == list(range(1, 15))
    assert [row["reward/mean"] for row in kept] == [0.1] * 10 + [0.2] + [0.3] * 3


def test_the_table_sets_each_run_beside_its_dead_twin(tmp_path):
    """A twin that rises to 0.6 and dies; of two rescued runs one ends at 0.9 and one at 0.3."""
    arm = next(iter(RESCUES))
    rescued, twins = tmp_path / "rescue", tmp_path / "runs"
    for folder in (rescued, twins):
        folder.mkdir()
    for seed, end in ((0, 0.9), (1, 0.3)):
        twin = [0.6] * 30 + [0.0] * 30
        write(
            ({"step": step, "reward/mean": reward} for step, reward in enumerate(twin, 1)), twins / name("grpo", seed)
        )
        write(rows_of([(range(1, 41), 0.5), (range(31, 101), end)]), rescued / name(arm, seed))
    output = rescue_table(rescued, twins).splitlines()
    assert output[2] == f"| {arm} | 0 | 34 | 0.60 | 0.60 | 0.00 | 40 → 30 | 100 | 0.90 | 0.90 | yes |"
    assert output[3] == f"| {arm} | 1 | 34 | 0.60 | 0.60 | 0.00 | 40 → 30 | 100 | 0.30 | 0.30 | no |"
    assert (
        output[-1]
        == f"- {arm}: 1/2 (1% to 99%) end above the peak of their twin; by means of 20 steps 1/2 (1% to 99%)."
    )


def test_a_run_whose_twin_was_not_trained_is_shown_alone_and_named(tmp_path):
    """A seed that is rescued before its twin is trained is still shown; it counts for neither answer."""
    arm = next(iter(RESCUES))
    rescued = tmp_path / "rescue"
    rescued.mkdir()
    write(rows_of([(range(1, 41), 0.5), (range(31, 101), 0.9)]), rescued / name(arm, 3))
    output = rescue_table(rescued, tmp_path / "runs").splitlines()
    assert output[2] == f"| {arm} | 3 | – | – | – | – | 40 → 30 | 100 | 0.90 | 0.90 | no twin |"
    assert output[-1] == f"- {arm}: no twin of seed 3 is recorded; `dynamics --arms grpo --seeds 3` trains it."
    assert "end above" not in "".join(output[3:])


def test_a_rescued_run_that_diverged_does_not_end_above_its_twin(tmp_path):
    """It earned nothing in the end, although the average of the rewards before that is above the twin's peak."""
    arm = next(iter(RESCUES))
    rescued, twins = tmp_path / "rescue", tmp_path / "runs"
    for folder in (rescued, twins):
        folder.mkdir()
    write(rows_of([(range(1, 61), 0.6)]), twins / name("grpo", 0))
    taken = rows_of([(range(1, 101), 0.9)])
    write([*taken, divergence_row(taken) | {"attempt": 1}], rescued / name(arm, 0))
    output = rescue_table(rescued, twins).splitlines()
    assert output[2] == f"| {arm} | 0 | – | 0.60 | 0.60 | 0.60 | never | 101 | 0.00 | 0.00 | no |"


def test_the_forks_of_a_run_are_printed_with_what_they_cost(tmp_path):
    """One run was forked once, into a fork that wins and one that diverged; another run was never forked."""
    level = {"mean": 0.5, "low": 0.4, "high": 0.6}
    lost = {"mean": float("nan"), "low": float("-inf"), "high": float("inf")}
    scores = [
        {"name": "unchanged", "has_diverged": False, "reward": level, "reward_gain": level},
        {"name": "half-rate", "has_diverged": False, "reward": level, "reward_gain": level},
        {"name": "kl", "has_diverged": True, "reward": lost, "reward_gain": lost},
    ]
    scores = [
        score | {"displacement": score["reward"], "displacement_gain": score["reward_gain"], "entropy": level}
        for score in scores
    ]
    forked = {"choice": {"winner": "half-rate", "scores": scores}, "asked_at": 46, "begun_at": 40, "extra_steps": 60}
    for seed in (0, 1):
        write(rows_of([(range(1, 3), 0.5)]), tmp_path / name("fork", seed))
    forks_path(tmp_path / name("fork", 0)).write_text(json.dumps([forked]), encoding="utf-8")
    assert cost_table(tmp_path).splitlines()[2:] == ["| 0 | 1 | half-rate at step 46 | 60 |", "| 1 | 0 | | 0 |"]
    control, winner, diverged = forks_table(tmp_path).splitlines()[2:]
    assert control == "| 0 | 46 | 40 | unchanged | 0.50 | – | +0.500 | – | +0.50 | |"
    gains = "0.50 | +0.50 (+0.40 to +0.60) | +0.500 | +0.500 (+0.400 to +0.600)"
    assert winner == f"| 0 | 46 | 40 | half-rate | {gains} | +0.50 | goes on |"
    assert diverged.endswith("| +0.50 | diverged |")


def name(arm, seed):
    return f"{arm}-seed{seed}.jsonl.gz"


@pytest.mark.slow
def test_every_way_to_take_a_run_back_is_recorded_through_a_real_collector(tmp_path, tiny_cache, capsys, monkeypatch):
    """Four healthy steps of each: nothing to take back, every row of the first attempt, every run in the table."""
    monkeypatch.setenv("RLVITALS_DASHBOARD", "")  # which takes seconds to import
    monkeypatch.setenv("PATH", "")  # no browser: the page alone
    options = ["--seeds", "0", "--out", str(tmp_path), "--cache", str(tiny_cache), "--preset", "tiny"]
    assert main(["lambda", "--arms", "grpo", *options]) == 0
    capsys.readouterr()
    assert main(["rescue", *options]) == 0
    output = capsys.readouterr().out
    for arm in RESCUES:
        rows = read(tmp_path / "rescue-tiny" / name(arm, 0))
        assert [(row["step"], row["attempt"]) for row in rows] == [(1, 1), (2, 1), (3, 1), (4, 1)]
        assert {"reward/mean", "likelihood/correct", "grad/norm"} <= rows[0].keys()
        assert f"| {arm} | 0 | – |" in output
