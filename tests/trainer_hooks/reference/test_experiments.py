"""The experiments' runner: when a run counts as collapsed, and that what is recorded is shown."""

import pytest

from trainer_hooks.reference.experiments import collapse_step, main, smoothed


def test_a_collapse_is_half_the_best_average_for_ten_steps():
    """Twenty steps at 0.6, then nothing: 0.6·0.8ⁿ is under 0.3 from n = 4 on (0.8⁴ = 0.41, 0.8³ = 0.512)."""
    assert collapse_step([0.6] * 20 + [0.0] * 20) == 24


def test_a_run_that_recovers_within_ten_steps_has_not_collapsed():
    """Nine steps under half the best are a dip."""
    # Under half from the 4th zero on; twelve zeros make nine such steps, then 0.6 lifts the average over 0.12 + …:
    # after 12 zeros the average is 0.6·0.8¹² = 0.041, one 4.0 gives 0.83.
    assert collapse_step([0.6] * 20 + [0.0] * 12 + [4.0] * 5) is None
    assert collapse_step([]) is None


def test_the_average_starts_at_the_first_reward():
    """0.5, then 0.8·0.5 + 0.2·1 = 0.6."""
    assert smoothed([0.5, 1.0]) == pytest.approx([0.5, 0.6])


def test_arms_are_recorded_once_and_shown(tmp_path, tiny_cache, capsys):
    """Two arms of one seed give two files and two rows; a second call trains nothing."""
    options = ["--seeds", "0", "--out", str(tmp_path), "--cache", str(tiny_cache), "--preset", "tiny"]
    assert main(["grpo", "llds-0.1", *options]) == 0
    printed = capsys.readouterr().out
    assert "| grpo | 0/1 | 0: – |" in printed
    assert "| llds-0.1 | 0/1 | 0: – |" in printed
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(written) == 2
    assert main(["grpo", "llds-0.1", *options]) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written
    assert capsys.readouterr().out == printed


def test_an_unknown_arm_is_refused(capsys):
    """The message lists the arms there are."""
    with pytest.raises(SystemExit):
        main(["ppo"])
    assert "arm must be one of grpo" in capsys.readouterr().err
