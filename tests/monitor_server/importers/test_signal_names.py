"""Trainers' own keys become canonical names."""

import math

import pytest

from monitor_server.importers.signal_names import read_row, step_keys
from trainer_hooks.callbacks.shared import naming


@pytest.mark.parametrize(
    ("key", "signal"),
    [
        ("reward", "reward/mean"),
        ("train/reward", "reward/mean"),
        ("critic/score/mean", "reward/mean"),
        ("critic_score_mean", "reward/mean"),
        ("train/rollout/reward_mean", "reward/mean"),
        ("rollout/raw_reward", "reward/mean"),
        ("rollout/response_lengths", "length/mean"),
        ("rollout/truncated", "length/truncated_frac"),
        ("rollout/kl", "kl/ref"),
        ("actor/entropy", "entropy/mean"),
        ("actor/entropy_loss", "entropy/mean"),
        ("policy/policy_entropy", "entropy/mean"),
        ("actor/pg_clipfrac", "ratio/clip_frac"),
        ("clip_ratio/region_mean", "ratio/clip_frac"),
        ("completions / mean_length", "length/mean"),
        ("completions/clipped_ratio", "length/truncated_frac"),
        ("response_length/clip_ratio", "length/truncated_frac"),
        ("frac_reward_zero_std", "reward/zero_std_frac"),
        ("actor/ppo_kl", "kl/old"),
        ("kl", "kl/ref"),
        ("sampling/importance_sampling_ratio/mean", "mismatch/ratio"),
        ("train/tis", "mismatch/ratio"),
        ("train/mis_k3_kl", "mismatch/kl"),
        ("optim/grad_norm", "grad/norm"),
        ("actor/lr(1e-4)", "lr"),
    ],
)
def test_a_trainers_key_is_recognised(key, signal):
    """Case, section and separators do not matter."""
    assert read_row({key: 0.25, "timing_s/step": 3.0}) == {signal: 0.25}


@pytest.mark.parametrize("table", ["TRANSFORMERS", "TRL", "VERL", "OPENRLHF", "SKYRL"])
def test_an_importer_knows_every_name_that_the_adapters_know(table):
    """A log of a trainer has the signals that its adapter would have sent."""
    names = getattr(naming, table)
    assert {name: read_row({name: 0.25}) for name in names} == {name: {names[name]: 0.25} for name in names}


@pytest.mark.parametrize("unit", ["( " + " " * 60_000 + "x", "(" * 60_000, "x" + "(1" * 30_000])
def test_a_long_key_takes_linear_time(unit):
    """A key of a JSON log may have any length."""
    assert read_row({unit: 0.25}) == {}


def test_the_raw_reward_stands_before_the_one_with_a_penalty():
    """Verl and TRL's PPO log both; the order in the row does not matter."""
    for row in (
        {"critic/rewards/mean": 0.1, "critic/score/mean": 0.5},
        {"critic/score/mean": 0.5, "reward_mean": 0.4},
        {"objective/rlhf_reward": 0.1, "objective/scores": 0.5},
    ):
        assert read_row(row)["reward/mean"] == 0.5


def test_what_trl_sums_over_a_response_is_no_signal():
    """The detectors judge nats for each token, and the length of the responses is not logged beside them."""
    row = {"objective/kl": 6.0, "objective/entropy": 103.0, "policy/entropy_avg": 0.5, "objective/scores": 0.3}
    signals = {"entropy/mean": 0.5, "reward/mean": 0.3}
    assert read_row(row) == signals
    assert read_row(row, {"kl": "objective/kl", "entropy": "objective/entropy"}) == signals
    assert read_row({"objective_kl": 6.0}, {"kl": "objective_kl"}) == {}


def test_the_ppo_of_older_releases_of_trl_has_names_of_its_own():
    """It was named so up to TRL 0.11."""
    row = {
        "ppo/mean_scores": 0.3, "env/reward_mean": 0.3, "env/reward_std": 0.1, "ppo/policy/entropy": 0.5,
        "ppo/policy/approxkl": 0.01, "ppo/policy/clipfrac": 0.1, "ppo/loss/policy": -0.01, "ppo/learning_rate": 1e-5,
        "tokens/responses_len_mean": 50.0, "objective/kl": 6.0, "ppo/loss/value": 2.0, "ppo/val/clipfrac": 0.9,
    }  # fmt: skip
    assert read_row(row) == {
        "reward/mean": 0.3, "reward/std": 0.1, "entropy/mean": 0.5, "kl/old": 0.01, "ratio/clip_frac": 0.1,
        "loss/policy": -0.01, "lr": 1e-5, "length/mean": 50.0,
    }  # fmt: skip


@pytest.mark.parametrize("section", ["", "train/"])
def test_the_mean_loss_at_the_end_of_a_training_is_no_loss_of_its_last_step(section):
    """Transformers logs it with the run time, in MLflow and TensorBoard at the step that may have a loss of its own."""
    summary = {f"{section}train_loss": 7.5, f"{section}train_runtime": 99.0}
    assert read_row(summary) == {}
    assert read_row(summary | {f"{section}loss": 0.5}) == {"loss/policy": 0.5}
    for nothing in (None, "", math.nan):  # as exports of W&B and pandas have it in each row
        assert read_row({f"{section}train_loss": 7.5, f"{section}train_runtime": nothing}) == {"loss/policy": 7.5}


def test_nan_is_kept_and_what_is_no_number_is_passed_over():
    """A NaN was logged; a text, a truth value and null were not measured."""
    found = read_row({"grad_norm": "NaN", "reward": None, "entropy": True, "kl": "none", "loss": math.inf})
    assert math.isnan(found.pop("grad/norm"))
    assert found == {"loss/policy": math.inf}


def test_slimes_zero_of_a_run_without_a_reference_model_is_no_distance():
    """It writes zeros where it computes nothing; the loss's own term, where it is computed, may be zero."""
    assert read_row({"rollout/kl": 0.0, "train/grad_norm": 0.5}) == {"grad/norm": 0.5}
    assert read_row({"rollout/kl": 0.0, "train/kl_loss": 0.0}) == {"kl/ref": 0.0}
    assert read_row({"rollout/kl": 0.2, "train/kl_loss": 0.1}) == {"kl/ref": 0.1}


def test_what_only_looks_like_a_distance_to_the_reference_or_the_sampler_is_not_mapped():
    """Forks of verl write sampler against trainer as rollout_kl, and slime's ois is the ratio to the old policy."""
    assert read_row({"rollout_kl": 0.1, "mismatch/rollout_kl": 0.1, "train/ois": 1.0, "kl_coef": 0.001}) == {}


def test_the_fallback_serves_only_keys_that_are_not_recognised():
    """A corpus may say where its reward is; it may not rename verl's old-policy KL to a reference KL."""
    row = {"reward/selected_mean": 0.3, "actor/ppo_kl": 0.01}
    found = read_row(row, {"reward": "reward/selected_mean", "kl": "actor/ppo_kl", "clip": "absent"})
    assert found == {"reward/mean": 0.3, "kl/old": 0.01}


def test_canonical_names_are_their_own():
    """Signals that rlvitals recorded are read back by their own names, before any trainer's spelling."""
    row = {
        "entropy/paired_delta": 0.01,
        "likelihood/correct": -0.4,
        "loss/policy": 0.2,
        "loss": 9.0,
        "control/share": 0.1,
    }
    assert read_row(row) == {name: value for name, value in row.items() if name != "loss"}


@pytest.mark.parametrize(
    "key",
    [
        "reward (std)",
        "reward (eval)",
        "entropy (max)",
        "entropy (bits)",
        "Δkl",
        "-loss",
        "clip_frac %",
        "clip_frac (%)",
    ],
)
def test_a_key_that_says_that_it_is_something_else_is_no_signal(key):
    """A statistic, a unit or a sign makes another number of it, and a wrong signal is worse than none."""
    assert read_row({key: 0.5}) == {}


@pytest.mark.parametrize("key", ["length_mean (tokens)", "Mean Length(tokens)", "completions / mean_length (1e0)"])
def test_the_unit_of_a_signal_and_a_factor_are_no_part_of_its_name(key):
    """The number is in the unit of the signal."""
    assert read_row({key: 12.0}) == {"length/mean": 12.0}


def test_the_entropy_term_of_a_loss_is_read_as_the_entropy():
    """Stable-Baselines3 logs minus the entropy, which would fall where the entropy rises; others log the entropy."""
    assert read_row({"train/entropy_loss": -1.25}) == {"entropy/mean": 1.25}
    assert read_row({"actor/entropy_loss": 1.25}) == {"entropy/mean": 1.25}
    assert read_row({"entropy": -1.25}) == {"entropy/mean": -1.25}


def test_a_step_may_have_any_spelling_and_the_exact_one_comes_first():
    """Tables have headings in capitals, and W&B's pages a section."""
    assert step_keys(("Reward", "Step")) == ("Step",)
    assert step_keys(("train/global_step", "train/reward", "Train/Step")) == ("Train/Step", "train/global_step")
    assert step_keys(("_step", "train/global_step")) == ("train/global_step", "_step")
    assert step_keys(("steps", "step_time", "rewards / step_reward_func / mean")) == ()
