import copy
import functools
import gc
import inspect
import itertools
import math
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_trl
import torch
import trl
from datasets import Dataset
from packaging.version import Version
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOTrainer, SFTConfig, SFTTrainer

import trainer_hooks
from tests import ranks
from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.hf_trainer.left_trainings import find_calling_trainer
from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.callbacks.trl.capture import RolloutCapture
from trainer_hooks.callbacks.trl.metrics import StepMetrics
from trainer_hooks.delivery import DropCounter
from trainer_hooks.signals import fetch
from trainer_hooks.signals.families.paired import compute as compute_signals
from trainer_hooks.wire import decode_response

RLOO_IS_ONLINE = "reward_funcs" in inspect.signature(RLOOTrainer).parameters  # TRL 0.22
needs_rloo = pytest.mark.skipif(not RLOO_IS_ONLINE, reason="this TRL's RLOOTrainer is of another kind")
# Parameters that older versions lack: steps_per_generation (to 0.17), sequence ratios (to 0.19), entropies (to 0.19).
OPTIONS = inspect.signature(GRPOConfig).parameters
HAS_ENTROPIES = hasattr(GRPOTrainer, "_get_per_token_logps_and_entropies")
needs_minibatches = pytest.mark.skipif("steps_per_generation" not in OPTIONS, reason="this TRL has one minibatch")
needs_sequence_ratios = pytest.mark.skipif("importance_sampling_level" not in OPTIONS, reason="this TRL has no GSPO")
needs_entropies = pytest.mark.skipif(not HAS_ENTROPIES, reason="this TRL computes no entropies")
needs_unscored = pytest.mark.skipif(
    Version(trl.__version__) < Version("1.16"), reason="older versions may reward such a response with 0"
)
SEVERAL_PASSES = {"num_iterations": 2}
SEVERAL_MINIBATCHES = {"steps_per_generation": 4}
CONFIGURATIONS = {
    "default": {},
    "checkpointed": {"gradient_checkpointing": True},
    "two passes": SEVERAL_PASSES,
    "two minibatches": pytest.param(SEVERAL_MINIBATCHES, marks=needs_minibatches),
    "two of each, reference": pytest.param(
        SEVERAL_PASSES | SEVERAL_MINIBATCHES | {"beta": 0.1}, marks=needs_minibatches
    ),
    "sequence ratios": pytest.param(
        {"importance_sampling_level": "sequence", **SEVERAL_PASSES}, marks=needs_sequence_ratios
    ),
    "leave one out": pytest.param({"kind": RLOOTrainer, **SEVERAL_PASSES}, marks=needs_rloo),
}


@pytest.fixture
def run(tmp_path, connect):
    """Return a function that trains with the callback into the live collector."""

    def train(**options):
        monitor = connect()
        callback = VitalsCallback(monitor, correct=options.pop("correct", None))
        prepared = options.pop("prepared", lambda _: None)
        trainer = tiny_trl.trainer(tmp_path, [callback], **options)
        prepared(trainer)
        trainer.train()
        assert monitor.flush(PATIENCE_SECONDS)
        return trainer

    return train


@pytest.fixture
def rollouts(tmp_path):
    """Return a function that trains and returns the token arrays of each step, as the callback passed them on."""

    def train(**options):
        recording = Recording()
        tiny_trl.trainer(tmp_path, [VitalsCallback(recording)], **options).train()
        return [{key: _array(value) for key, value in arrays.items()} for arrays in recording.rollouts]

    return train


class Recording(trainer_hooks.Monitor):
    """A monitor that is never started and keeps the token arrays that it is given."""

    def __init__(self):
        self.rollouts, self.paired, self.scalars = [], [], []
        self.drops = DropCounter()

    def begin_acting(self):
        """Return no policy."""

    def log_step(self, step, scalars=None, rollouts=None, grad_norm=None, paired=(), **_):  # noqa: ARG002 - Monitor's
        """Keep a step's rollouts."""
        self.rollouts.append(rollouts)
        self.scalars.append(scalars)
        self.paired.append({name: part.finish(*part.numbers) for scores in paired for name, part in _fetched(scores)})


def _fetched(scores):
    found = compute_signals(scores)
    return zip(found, fetch(scores.library, list(found.values())), strict=True)


def _array(value):
    if isinstance(value, list | tuple):
        return np.array(value)
    return value.float().numpy() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_final_weights_are_the_same_to_the_last_bit(options, run, tmp_path):
    """Training with the callback ends in the same weights and random generators as training without it."""
    watched = run(**options)
    generators = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002 - TRL's
    alone = tiny_trl.trainer(tmp_path, **options)
    alone.train()
    assert tiny_trl.weights(watched) == tiny_trl.weights(alone)
    assert torch.equal(generators[0], torch.get_rng_state())
    assert generators[1:] == (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002 - TRL's


def test_signals_are_what_trl_measured(run, steps):
    """Entropy, clip share, gradient norm, reward, length, loss and learning rate equal the values in TRL's log."""
    # One microbatch a step: TRL averages over microbatches, we over tokens.
    trainer = run(num_iterations=2, per_device_train_batch_size=8, gradient_accumulation_steps=1)
    names = {
        "entropy": "entropy/mean",
        "clip_ratio/region_mean": "ratio/clip_frac",
        "grad_norm": "grad/norm",
        "loss": "loss/policy",
        "learning_rate": "lr",
        "reward": "reward/mean",
        "completions/mean_length": "length/mean",
        "frac_reward_zero_std": "reward/zero_std_frac",
    }
    signals = steps()
    assert list(signals) == [1, 2, 3, 4]
    for step, logged in zip((1, 2, 3, 4), trainer.state.log_history, strict=False):
        for theirs, ours in names.items():
            rounding = 6e-5 if theirs == "loss" else 1e-6  # transformers 4 logs four digits of it
            if theirs in logged and ours in signals[step]:
                assert signals[step][ours] == pytest.approx(logged[theirs], rel=1e-4, abs=rounding), (step, ours)
    assert signals[2]["ratio/clip_frac"] > 0
    assert {"likelihood/correct", "grad/norm", "reward/mean", "text/repetition"} <= signals[1].keys()
    assert ("entropy/mean" in signals[1]) == HAS_ENTROPIES


def test_ratios_that_are_not_clipped_are_still_observed(run, steps):
    """An ε of 1 or more clips nothing below, and the token signals of such a run are sent all the same."""
    run(num_iterations=2, epsilon=1e6, correct="share_of_vowels")
    signals = steps()
    assert {"likelihood/correct", "ratio/max", "kl/old"} <= signals[2].keys()
    assert ("entropy/mean" in signals[2]) == HAS_ENTROPIES


def test_each_step_has_its_own_numbers_whatever_the_logging_window(run, steps):
    """With logging every 3 steps, the gradient norm and the reward of every single step are sent."""
    run(logging_steps=3)
    fast = steps()
    assert list(fast) == [1, 2, 3, 4]
    assert len({signals["grad/norm"] for signals in fast.values()}) == 4
    assert all("reward/mean" in signals for signals in fast.values())


def test_on_policy_ratios_are_not_reported(run, steps):
    """With one update per rollout the ratio is 1 by construction, so ratio, clipping and displacement are absent."""
    run()
    for signals in steps().values():
        assert not [name for name in signals if name.startswith(("ratio/", "displacement/", "lld/"))]


@needs_minibatches
def test_a_second_pass_is_distinguished_from_a_second_minibatch(run, steps):
    """The change of a response is `self` if it was trained on before, and `cross` if only others were."""
    run(**SEVERAL_PASSES, **SEVERAL_MINIBATCHES, max_steps=8)
    found = {
        step: {name for name in signals if name in ("displacement/self", "displacement/cross")}
        for step, signals in steps().items()
    }
    # Steps 1, 2: first pass over two minibatches; 3, 4: second pass; then a new rollout.
    nothing, cross, own = set(), {"displacement/cross"}, {"displacement/self"}
    correct_somewhere = {step: names for step, names in found.items() if names}
    assert correct_somewhere
    expected = {1: nothing, 2: cross, 3: own, 4: own, 5: nothing, 6: cross, 7: own, 8: own}
    for step, names in found.items():
        assert names in (expected[step], nothing)
    assert {name for names in found.values() for name in names} == {"displacement/self", "displacement/cross"}


@pytest.mark.parametrize("kind", [GRPOTrainer, pytest.param(RLOOTrainer, marks=needs_rloo)])
def test_old_log_probabilities_are_those_of_the_first_pass(kind, rollouts):
    """At the second pass the old log-probabilities equal, token by token, those that the first pass computed.

    Those of the reference model are there too. At the first step it is the policy.
    """
    steps = rollouts(kind=kind, num_iterations=2, beta=0.05)
    # At the second rollout the policy is no longer the reference model, which is scored beside it.
    for first, second in (steps[:2], steps[2:]):
        mask = first["mask"] > 0
        assert "old_logprobs" not in first
        is_reference = np.allclose(first["ref_logprobs"][mask], first["logprobs"][mask], atol=1e-5)
        assert is_reference == (first is steps[0])
        assert np.array_equal(second["ref_logprobs"][mask], first["ref_logprobs"][mask])
        assert np.array_equal(first["token_ids"], second["token_ids"])
        assert np.allclose(second["old_logprobs"][mask], first["logprobs"][mask], atol=1e-5)
        assert not np.allclose(second["logprobs"][mask], first["logprobs"][mask], atol=1e-5)


@pytest.mark.parametrize(
    "options", [{}, pytest.param(SEVERAL_MINIBATCHES, marks=needs_minibatches)], ids=["one", "two minibatches"]
)
def test_rewards_and_groups_stay_with_their_responses(options, rollouts):
    """After TRL's shuffling each response still has the reward that its own tokens earn."""
    words = np.array(tiny_trl.WORDS)
    for arrays in rollouts(per_device_train_batch_size=8, **options):
        kept = [words[row[mask > 0].astype(int)] for row, mask in zip(arrays["token_ids"], arrays["mask"], strict=True)]
        texts = [" ".join(word for word in row if word not in ("<pad>", "<eos>")) for row in kept]
        assert arrays["rewards"] == pytest.approx(tiny_trl.share_of_vowels(texts), abs=1e-6)


@needs_minibatches
def test_a_step_of_old_and_new_rollouts_has_the_old_log_probabilities_of_both(rollouts):
    """The second step takes a microbatch that an update has left behind, and a new one, whose ratio is 1."""
    options = {"steps_per_generation": 3, "gradient_accumulation_steps": 2, "max_steps": 2}
    first, second = rollouts(**options)
    assert "old_logprobs" not in first
    mask, change = second["mask"] > 0, second["logprobs"] - second["old_logprobs"]
    assert (change[:4][mask[:4]] != 0).any()
    assert (change[4:][mask[4:]] == 0).all()
    assert second["trained"] is None


def reordering(order):
    """Return a kind of trainer that trains on the rows of its rollout batch in this order."""

    class Reordering(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            is_row = {name: isinstance(part, torch.Tensor) and part.ndim > 0 for name, part in batch.items()}
            return {name: part[list(order)] if is_row[name] else part for name, part in batch.items()}

    # The trainer with a replay buffer in trl.experimental replaces rows of its rollout batch.
    Reordering._generate_and_score_completions.__module__ = "trl.experimental.reordering"
    return Reordering


@pytest.mark.skipif(
    not hasattr(GRPOTrainer, "_calculate_rewards"), reason="this TRL does not say which tokens it scores"
)
@pytest.mark.parametrize(
    "order",
    [range(7, -1, -1), [*range(8), *range(8)], [0, 1, 6, 7]],
    ids=["reversed", "repeated", "some"],
)
def test_rewards_stay_with_responses_that_a_subclass_reorders_repeats_or_leaves_out(order, rollouts):
    """A subclass that trains on other rows than were generated trains, and each row has the reward of its tokens."""
    words = np.array(tiny_trl.WORDS)
    steps = rollouts(kind=reordering(order))
    assert len(steps) == 4
    for arrays in steps:
        kept = [words[row[mask > 0].astype(int)] for row, mask in zip(arrays["token_ids"], arrays["mask"], strict=True)]
        texts = [" ".join(word for word in row if word not in ("<pad>", "<eos>")) for row in kept]
        assert arrays["rewards"] == pytest.approx(tiny_trl.share_of_vowels(texts), abs=1e-6)


@needs_entropies
def test_the_scores_of_a_teacher_are_not_those_of_the_policy(rollouts):
    """Where a subclass's loss also scores another model, likelihoods are those that have gradients."""

    class Taught(GRPOTrainer):
        def _compute_loss(self, model, inputs):
            teacher = copy.deepcopy(model)
            with torch.no_grad():
                teacher.lm_head.weight.mul_(100)
                whole = [
                    torch.cat([inputs[f"prompt_{part}"], inputs[f"completion_{part}"]], dim=1)
                    for part in ("ids", "mask")
                ]
                self._get_per_token_logps_and_entropies(teacher, *whole, inputs["completion_ids"].shape[1])
            return super()._compute_loss(model, inputs)

    alone, taught = rollouts(max_steps=1), rollouts(max_steps=1, kind=Taught)
    for name in ("logprobs", "entropies"):
        assert np.array_equal(taught[0][name], alone[0][name])


@pytest.mark.skipif(
    "rollout_func" not in inspect.signature(GRPOTrainer).parameters, reason="this TRL knows no rollout_func"
)
def test_tool_feedback_is_no_action(run, steps):
    """Tokens that a rollout function marks as feedback are in no likelihood, and they split the actions."""
    tokens = [5, 6, 7, 8, 9, 10, 1]

    def rollout_func(prompts, trainer):  # noqa: ARG001 - TRL's signature
        return {
            "prompt_ids": [[3, 4]] * len(prompts),
            "completion_ids": [tokens] * len(prompts),
            "logprobs": [[-1.0] * len(tokens)] * len(prompts),
            "env_mask": [[1, 1, 0, 0, 1, 1, 1]] * len(prompts),
        }

    run(rollout_func=rollout_func, reward=lambda completions, **_: [1.0] * len(completions), max_steps=1)
    (signals,) = steps().values()
    assert signals["length/mean"] == pytest.approx(5)
    assert {"likelihood/action0", "likelihood/action1"} <= signals.keys()
    assert "likelihood/action2" not in signals
    # The sampler claims −1 nat for each token: the gap is −1 less the model's value.
    assert signals["mismatch/logprob_abs"] == pytest.approx(-1 - signals["likelihood/correct"], abs=1e-5)


def test_a_named_reward_function_says_what_is_correct(run, steps):
    """A response that is rewarded for something else is not correct, where a reward function is named."""

    def exact(completions, **_):
        return [float(index % 4 == 0) for index, _ in enumerate(completions)]

    def always(completions, **_):
        return [1.0] * len(completions)

    run(reward=[exact, always], correct="exact", max_steps=1)
    (signals,) = steps().values()
    assert signals["reward/correct_frac"] == pytest.approx(0.25)
    assert signals["reward/mean"] == pytest.approx(1.25)


@needs_unscored
def test_a_response_that_the_named_function_did_not_grade_is_judged_by_its_weighted_reward(run, steps):
    """In a training of two tasks, the responses to the other task are no incorrect ones of the named function."""

    def solved(completions, **_):
        return [None if index % 2 else float(index % 4 == 0) for index, _ in enumerate(completions)]

    def compiled(completions, **_):
        return [1.0 if index % 2 else None for index, _ in enumerate(completions)]

    run(reward=[solved, compiled], correct="solved", max_steps=1)
    (signals,) = steps().values()
    assert signals["reward/correct_frac"] == pytest.approx(0.75)


def test_a_reward_function_that_does_not_exist_is_reported_once_and_costs_no_signal(run, steps, caplog):
    """The log names the functions that there are, and the weighted reward says what is correct."""
    run(correct="share_of_vowel", max_steps=2)
    (line,) = [record.message for record in caplog.records if "share_of_vowel'" in record.message]
    assert "its functions are: share_of_vowels;" in line
    signals = steps()[2]
    assert {"reward/correct_frac", "likelihood/correct", "text/repetition"} <= signals.keys()
    assert "hooks/internal_errors" not in signals


@pytest.mark.skipif(Version(trl.__version__) < Version("0.21"), reason="this TRL fails itself on such a response")
def test_responses_without_a_reward_are_left_out(run, steps):
    """A response that no reward function could score is neither a bad value nor an incorrect response."""

    def unsure(completions, **_):
        return [None if index % 2 else 1.0 for index, _ in enumerate(completions)]

    run(reward=unsure, max_steps=1)
    (signals,) = steps().values()
    assert signals["finite/bad_values"] == 0
    assert signals["reward/mean"] == 1
    assert signals["reward/correct_frac"] == 1


def test_a_reward_of_weight_0_leaves_no_response_out(run, steps):
    """A perplexity that is only watched may be infinite, and TRL trains on the response all the same."""

    def perplexity(completions, **_):
        return [math.inf if index == 1 else 1.0 for index, _ in enumerate(completions)]

    reward = [tiny_trl.share_of_vowels, perplexity]
    trainer = run(reward=reward, reward_weights=[1.0, 0.0], max_steps=1)
    (signals,) = steps().values()
    assert signals["reward/mean"] == pytest.approx(trainer.state.log_history[0]["reward"])
    assert signals["length/mean"] == pytest.approx(trainer.state.log_history[0]["completions/mean_length"])


@needs_unscored
def test_groups_of_equal_rewards_are_counted_where_advantages_are_scaled_over_the_batch(run, steps):
    """Where TRL's share is that of the whole batch, and a step holds no whole groups, groups are counted all the same.

    Rewards that are missing are left out, as TRL leaves them out of a group's deviation.
    """

    def half_equal(completions, **_):
        groups = [[0.0, 1.0, 0.0, 1.0], [1.0, 1.0, None, 1.0], [0.0, 0.0, 0.0, None], [0.0, 1.0, 1.0, 1.0]]
        return [groups[index // 4 % 4][index % 4] for index, _ in enumerate(completions)]

    run(reward=half_equal, scale_rewards="batch", max_steps=3, **SEVERAL_MINIBATCHES)
    signals = steps()
    for step in (1, 3):  # those that generate
        assert signals[step]["reward/zero_std_frac"] == 0.5
        assert signals[step]["reward/all_correct_frac"] == 0.25
        assert signals[step]["reward/all_wrong_frac"] == 0.25


@needs_rloo
def test_rewards_that_rloo_clips_to_the_same_value_are_equal(run, steps):
    """A group whose rewards all lie beyond the clip range has no gradient, although its logged rewards differ.

    At a step without a clipped reward advantages are compared with rewards.
    """
    highest = iter((3, 0.75))

    def beyond_in_every_other_group(completions, **_):
        scale = next(highest) / 3
        return [scale * (index % 4 + index // 4 % 2) for index, _ in enumerate(completions)]

    options = {"reward_clip_range": (-1.0, 1.0), "beta": 0.0, "max_steps": 2}
    trainer = run(kind=RLOOTrainer, reward=beyond_in_every_other_group, **options)
    logged = trainer.state.log_history[0]
    assert logged["frac_reward_zero_std"] == 0.5
    clipped, kept = steps().values()
    assert clipped["reward/zero_std_frac"] == 0.5
    # Older versions log the mean of the clipped rewards as their reward.
    assert clipped["reward/mean"] == logged["rewards/beyond_in_every_other_group/mean"] == 2
    assert "advantage/reward_corr" not in clipped
    assert kept["advantage/reward_corr"] > 0.9


@needs_minibatches
def test_groups_of_every_rollout_batch_of_a_step_are_counted(tmp_path):
    """Where each microbatch is generated on its own, as TRL's own share of groups without deviation shows."""
    rewards = itertools.cycle([[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
    recording = Recording()
    options = {"steps_per_generation": 1, "gradient_accumulation_steps": 2, "max_steps": 1}
    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(recording)], reward=lambda **_: next(rewards), **options)
    trainer.train()
    (signals,) = [numbers for numbers in recording.scalars if "reward/zero_std_frac" in numbers]
    assert signals["reward/zero_std_frac"] == trainer.state.log_history[0]["frac_reward_zero_std"] == 0.5
    assert signals["reward/all_correct_frac"] == 0.5
    assert signals["reward/all_wrong_frac"] == 0.0


@needs_unscored
@pytest.mark.parametrize("scored", [0, 1])
def test_a_step_with_hardly_any_reward_has_no_bad_values(scored, run, steps):
    """Where TRL has no mean or deviation of rewards because one or no response was scored, its NaN is no finding."""

    def unsure(completions, **_):
        return [1.0 if index < scored else None for index, _ in enumerate(completions)]

    run(reward=unsure, max_steps=1)
    (signals,) = steps().values()
    assert signals["finite/bad_values"] == 0
    assert signals.get("reward/mean") == (1 if scored else None)


@needs_entropies
def test_scoring_again_after_the_update_is_what_the_next_pass_sees(tmp_path):
    """The probe's scores after step 1 equal those that the loss of the second pass computes before step 2."""
    recording = Recording()
    options = {"num_iterations": 2, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "max_steps": 2}
    tiny_trl.trainer(tmp_path, [VitalsCallback(recording, probe_every=1)], **options).train()
    first, second = ({key: _array(value) for key, value in arrays.items()} for arrays in recording.rollouts)
    mask = first["mask"] > 0
    is_fresh, is_correct = first["advantages"] == 0, first["correct"] > 0
    entropy = (second["entropies"] - first["entropies"])[mask & is_fresh[:, None]].mean()
    own = (second["logprobs"] - first["logprobs"])[mask & (is_correct & ~is_fresh)[:, None]].mean()
    assert recording.paired[0]["entropy/paired_delta"].value() == pytest.approx(entropy, abs=1e-6)
    assert recording.paired[0]["displacement/self"].value() == pytest.approx(own, abs=1e-6)


@needs_entropies
@needs_rloo
@pytest.mark.parametrize("beta", [0.0, 0.05])
def test_what_was_trained_is_never_fresh(beta, tmp_path):
    """With RLOO and β > 0 no response is fresh: it subtracts β·KL from rewards, so equal rewards still train."""

    def equal_in_every_other_group(completions, **_):
        return [float(index % 2 or index // 4 % 2) for index, _ in enumerate(completions)]

    recording = Recording()
    callback = VitalsCallback(recording, probe_every=1)
    options = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "beta": beta}
    tiny_trl.trainer(tmp_path, [callback], kind=RLOOTrainer, reward=equal_in_every_other_group, **options).train()
    # In the first step the policy is the reference model, and their KL may be 0.
    for arrays, paired in list(zip(recording.rollouts, recording.paired, strict=True))[1:]:
        is_fresh = arrays["advantages"] == 0
        assert is_fresh.sum() == (4 if beta == 0 else 0)
        counts = {name: summary.count for name, summary in paired.items() if summary is not None}
        assert counts.get("entropy/paired_delta", 0) == arrays["mask"][is_fresh].sum()
        assert counts.get("displacement/cross", 0) == arrays["mask"][is_fresh].sum()
        assert counts["displacement/self"] > 0


@needs_entropies
def test_equal_rewards_are_fresh_where_their_mean_rounds(tmp_path):
    """Equal rewards are fresh although the mean of eight times 0.7 misses it by 6e-8, which GRPO divides by 1e-4."""
    recording = Recording()
    callback = VitalsCallback(recording, probe_every=1)
    options = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_generations": 8}
    tiny_trl.trainer(tmp_path, [callback], reward=lambda completions, **_: [0.7] * len(completions), **options).train()
    arrays, paired = recording.rollouts[0], recording.paired[0]
    assert (arrays["advantages"] != 0).all()
    assert paired["entropy/paired_delta"].count == arrays["mask"].sum()


@needs_entropies
def test_the_probe_changes_no_weight(tmp_path, connect, collector):
    """The probe changes no bit of the final weights, and the run has level L4."""
    monitor = connect()
    probed = tiny_trl.trainer(tmp_path, [VitalsCallback(monitor, probe_every=1)])
    probed.train()
    assert monitor.flush(PATIENCE_SECONDS)
    alone = tiny_trl.trainer(tmp_path)
    alone.train()
    assert tiny_trl.weights(probed) == tiny_trl.weights(alone)
    assert collector.batches[-1].capability == "L4"
    # Only the first step has a group without variance, a fresh context.
    zero_std = [entry.get("frac_reward_zero_std") for entry in alone.state.log_history[:4]]
    paired = ["entropy/paired_delta" in record.summaries for record in collector.records]
    assert zero_std == [0.5, 0, 0, 0]
    assert paired == [True, False, False, False]
    assert any("displacement/self" in record.summaries for record in collector.records[1:])


@needs_entropies
def test_a_training_that_raised_leaves_nothing_to_score_again(tmp_path):
    """Responses noted in a step that raised an error are discarded, because their update was never made."""

    class Failing(TrainerCallback):
        """Fails once, in the second step, between its loss and its update."""

        is_broken = True

        def on_pre_optimizer_step(self, args, state, control, **_):  # noqa: ARG002 - transformers' signature
            if self.is_broken and state.global_step == 1:
                self.is_broken = False
                raise RuntimeError("out of memory")

    recording = Recording()
    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(recording, probe_every=2), Failing()])
    with pytest.raises(RuntimeError, match="out of memory"):
        trainer.train()
    trainer.train()
    assert [bool(paired) for paired in recording.paired] == [False, False, True, False, True]


def hold_out(trainer):
    """Return one correct response for the probe, scored by the trainer's own scorer."""
    ids = torch.tensor([[5, 6, 7, 8, 9, 10]])

    def score():
        found = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, torch.ones_like(ids), 4, compute_entropy=True
        )
        return found[0], found[1]

    return {"score": score, "mask": torch.ones(1, 4), "correct": torch.ones(1)}


@needs_entropies
def test_responses_held_out_from_the_update_are_scored_at_every_nth_step(tmp_path, connect, collector):
    """Held-out responses are scored by the trainer's own scorer before and after, and weights stay the same."""
    monitor = connect()
    watched = tiny_trl.trainer(tmp_path, [VitalsCallback(monitor, probe_every=2, reserved=hold_out)])
    watched.train()
    assert monitor.flush(PATIENCE_SECONDS)
    alone = tiny_trl.trainer(tmp_path)
    alone.train()
    assert tiny_trl.weights(watched) == tiny_trl.weights(alone)
    held_out = [record.summaries.get("displacement/cross") for record in collector.records]
    assert [share is not None for share in held_out] == [False, True, False, True]
    assert held_out[1].count >= 4
    assert held_out[1].value() != 0
    assert "entropy/paired_delta" in collector.records[1].summaries


class UnderDeepSpeed(VitalsCallback):
    """Finds a trainer that says that it uses DeepSpeed."""

    def on_train_begin(self, *args, **kwargs):
        """Begin with a trainer that says so only now, because DeepSpeed is not installed."""
        trainer = find_calling_trainer(self)
        trainer.is_deepspeed_enabled = True
        super().on_train_begin(*args, **kwargs)
        trainer.is_deepspeed_enabled = False


def step_in_backward(trainer):
    """Make the update at the end of the last microbatch's backward pass, as Accelerate does under DeepSpeed."""
    backward = trainer.accelerator.backward

    def step_too(*args, **kwargs):
        backward(*args, **kwargs)
        if trainer.accelerator.sync_gradients:
            trainer.optimizer.step()
            trainer.model.zero_grad()

    trainer.accelerator.backward = step_too


@pytest.mark.usefixtures("full_precision")
@needs_entropies
def test_what_precedes_the_update_is_measured_before_a_backward_pass_that_makes_it(tmp_path, connect, collector):
    """Each step has the numbers of an ordinary training, although DeepSpeed has updated before the event for it."""
    trained, found = [], []
    for kind, prepare in ((VitalsCallback, lambda _: None), (UnderDeepSpeed, step_in_backward)):
        monitor = connect()
        callback = kind(monitor, probe_every=1, reserved=hold_out, recompute_every=1)
        # Clipping would come after such an update.
        trainer = tiny_trl.trainer(tmp_path, [callback], max_steps=2, max_grad_norm=0)
        prepare(trainer)
        trainer.train()
        assert monitor.flush(PATIENCE_SECONDS)
        trained.append(tiny_trl.weights(trainer))
        found = [record.summaries for record in collector.records]
    assert trained[0] == trained[1]
    names = ("displacement/cross", "entropy/paired_delta", "displacement/self", "instrument/logprob_max")
    expected = [{name: step[name].value() for name in names} for step in found[:2]]
    assert [{name: step[name].value() for name in names} for step in found[2:]] == [
        pytest.approx(step, abs=1e-5) for step in expected
    ]
    assert all(abs(step["displacement/cross"]) > 1e-4 for step in expected)


@needs_entropies
def test_numbers_are_not_computed_again_where_every_backward_pass_updates(tmp_path, connect, collector, caplog):
    """A log line says why; the weights that gave the numbers no longer exist."""
    monitor = connect()
    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(monitor, recompute_every=1)], max_steps=1)
    trainer.create_optimizer()
    trainer.args.optim = "galore_adamw_layerwise"
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    assert "the weights change in the backward pass" in caplog.text
    assert not [name for name in collector.records[0].summaries if name.startswith("instrument/")]


def test_responses_that_trl_masks_have_no_length(run, steps):
    """Masked responses count in rewards and in the truncated share; lengths cover the others, or are TRL's own."""
    rewarded = []

    def reward(completions, **_):
        rewarded.append(tiny_trl.share_of_vowels(completions))
        return rewarded[-1]

    trainer = run(mask_truncated_completions=True, reward=reward)
    for signals, logged, rewards in zip(steps().values(), trainer.state.log_history, rewarded, strict=False):
        whole = logged["completions/mean_terminated_length"] or logged["completions/mean_length"]
        assert signals["length/mean"] == pytest.approx(whole)
        assert signals["length/truncated_frac"] == pytest.approx(logged["completions/clipped_ratio"])
        assert signals["reward/mean"] == pytest.approx(sum(rewards) / len(rewards))
    assert {signals["length/truncated_frac"] for signals in steps().values()} >= {1.0, 0.5}


@pytest.mark.skipif(Version(trl.__version__) < Version("1.16"), reason="older versions have other means of nothing")
def test_a_step_whose_responses_are_all_masked_has_no_entropy(run, steps):
    """Where TRL masks every response, the entropy is not observed; TRL's 0 would be a collapsed policy."""
    trainer = run(mask_truncated_completions=True, max_completion_length=3)
    masked = [logged["completions/clipped_ratio"] == 1 for logged in trainer.state.log_history[:4]]
    assert any(masked)
    for signals, is_masked in zip(steps().values(), masked, strict=True):
        assert ("entropy/mean" in signals) != is_masked


def test_texts_are_those_of_the_tokens_and_go_through_the_redaction(tmp_path, connect, collector, monkeypatch):
    """Texts are decoded in the background, by a tokenizer of our own, and pass through `redact`."""
    monkeypatch.setenv("RLVITALS_RESPONSE_SECONDS", "0")
    seen = []

    def redact(text):
        seen.append(text)
        return text if "a" not in text else "…"

    monitor = connect(texts=True, redact=redact)
    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(monitor)], max_steps=2)
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    responses = [decode_response(bytes(raw)) for record in collector.records for raw in record.responses]
    hidden = [response for response in responses if response.token_ids is None]
    sent = [response for response in responses if response.token_ids is not None]
    assert hidden
    assert sent
    assert all(response.text == "…" for response in hidden)
    for response in sent:
        assert response.text == trainer.processing_class.decode(response.token_ids.to_numpy().tolist())
        assert response.text in seen


@pytest.mark.parametrize("redacts", [True, False])
def test_without_texts_nothing_is_decoded(redacts, tmp_path, connect, collector):
    """Without texts token ids are sent, but not with `redact`, which has no text to check."""
    monitor = connect(redact=str.upper) if redacts else connect()
    tiny_trl.trainer(tmp_path, [VitalsCallback(monitor)], max_steps=1).train()
    assert monitor.flush(PATIENCE_SECONDS)
    responses = [decode_response(bytes(raw)) for record in collector.records for raw in record.responses]
    assert responses
    assert all(response.text is None and (response.token_ids is None) == redacts for response in responses)


class Dying(GRPOTrainer):
    """A trainer that raises an error in the loss of the second step."""

    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        return loss * math.nan if self.state.global_step == 1 else loss


@pytest.mark.parametrize("failing_call", [3, 4], ids=["in the first microbatch", "in the second microbatch"])
def test_a_step_that_runs_out_of_memory_is_sent_before_it_is_lost(failing_call, tmp_path, connect, steps):
    """Rewards and lengths of the rollout and tokens of earlier microbatches are sent, and TRL's error propagates."""
    monitor = connect()
    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(monitor)])
    compute_loss, calls = trainer.compute_loss, itertools.count(1)

    def compute_loss_of_a_small_device(*args, **kwargs):
        if next(calls) == failing_call:
            raise torch.OutOfMemoryError
        return compute_loss(*args, **kwargs)

    trainer.compute_loss = compute_loss_of_a_small_device
    with pytest.raises(torch.OutOfMemoryError):
        trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    whole, partial = steps().values()
    assert "hooks/partial_step" not in whole
    assert partial["hooks/partial_step"] == 1
    assert math.isfinite(partial["reward/mean"])
    assert partial["length/mean"] > 0
    assert ("likelihood/p05" in partial) == (failing_call == 4)
    assert "grad/norm" not in partial


def test_a_loss_of_nan_is_reported_as_nan(run, steps):
    """Loss and gradient norm are sent as NaN, although transformers logs such a loss as 0."""
    trainer = run(kind=Dying, max_steps=2)
    assert not math.isnan(trainer.state.log_history[1]["loss"])
    assert math.isnan(steps()[2]["loss/policy"])
    assert math.isnan(steps()[2]["grad/norm"])
    assert steps()[2]["finite/bad_values"] >= 2


@pytest.mark.skipif("entropy_coef" not in OPTIONS, reason="this TRL has no entropy bonus")
@pytest.mark.parametrize("loss_type", ["dapo", "grpo"])
def test_the_loss_beside_an_entropy_bonus_is_that_of_the_policy(loss_type, run, steps):
    """It is the trainer's loss plus the bonus, whether or not TRL divides each microbatch's loss by the whole step."""
    trainer = run(entropy_coef=0.1, loss_type=loss_type, max_completion_length=6, max_steps=2)
    for entry in trainer.state.log_history[:2]:
        assert steps()[entry["step"]]["loss/policy"] == pytest.approx(entry["loss"] + 0.1 * entry["entropy"], abs=1e-4)


def test_an_error_of_ours_is_counted_and_not_raised(run, steps, swallowed):
    """Weights of rewards that cannot be read cost only the token signals; training goes on."""

    class Unreadable(torch.Tensor):
        def cpu(self):
            raise RuntimeError

    def spoil(trainer):
        trainer.reward_weights = trainer.reward_weights.as_subclass(Unreadable)

    run(prepared=spoil)
    assert swallowed
    swallowed.clear()
    assert list(steps()) == [1, 2, 3, 4]
    assert steps()[4]["hooks/internal_errors"] >= 4
    assert steps()[4]["reward/mean"] == steps()[4]["reward/mean"]
    assert "likelihood/correct" not in steps()[4]


def test_where_tokens_are_out_of_sight_the_metrics_go_on(run, steps, collector):
    """A trainer whose loss never calls the scorer gives level L1, its own metrics and no tokens."""
    run(kind=tiny_trl.Fused)
    signals = steps()[4]
    assert {"reward/mean", "grad/norm", "length/mean", "lr"} <= signals.keys()
    assert "likelihood/correct" not in signals
    assert {batch.capability for batch in collector.batches} == {"L1"}


def test_the_capability_level_is_that_of_what_was_caught(run, collector):
    """Tokens of the loss with their entropies give level L3; on-policy tokens without entropies give L2."""
    run()
    assert collector.batches[-1].capability == ("L3" if HAS_ENTROPIES else "L2")


def test_evaluation_is_not_training(run, steps):
    """Responses of an evaluation reach no signal, and the evaluation's log makes no step."""
    in_training = []

    def reward(completions, **_):
        in_training.append(watched[0].model.training if watched else True)
        return [1.0 if in_training[-1] else 100.0] * len(completions)

    watched = []
    run(
        reward=reward,
        prepared=watched.append,
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=4,
        max_steps=2,
    )
    assert set(in_training) == {True, False}
    assert [signals["reward/mean"] for signals in steps().values()] == [1, 1]


class Logging(TrainerCallback):
    """A user's callback that logs at the end of every step."""

    trainer = None

    def on_step_end(self, args, state, control, **_):  # noqa: ARG002 - transformers' signature
        """Log a number of the user's own."""
        self.trainer.log({"my/metric": 7.0, "reward/held_out": 0.5})


@pytest.mark.parametrize("is_first", [True, False])
def test_evaluations_and_what_the_user_logs_arrive(is_first, tmp_path, connect, steps):
    """Evaluations and the user's numbers are sent beside TRL's metrics, whichever callback is called first."""
    monitor, mine = connect(), Logging()
    callbacks = [mine, VitalsCallback(monitor)] if is_first else [VitalsCallback(monitor), mine]
    options = {"eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 4, "logging_steps": 3}
    mine.trainer = tiny_trl.trainer(tmp_path, callbacks, **options)
    mine.trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    signals = steps()
    assert all(signals[step]["trl/my/metric"] == 7 and signals[step]["trl/reward/held_out"] == 0.5 for step in signals)
    assert all("trl/rewards/share_of_vowels/mean" in signals[step] for step in (1, 2, 3, 4))
    evaluations = [entry["eval_reward"] for entry in mine.trainer.state.log_history if "eval_reward" in entry]
    assert [signals[step]["trl/eval_reward"] for step in (2, 4)] == pytest.approx(evaluations)
    assert "trl/eval_loss" in signals[2]


def test_an_evaluation_within_a_step_leaves_its_metrics_alone(tmp_path, connect, steps):
    """A step's lengths are its own and counted once, although the user's callback evaluates before ours is called."""

    class Evaluating(TrainerCallback):
        trainer = None

        def on_step_end(self, args, state, control, **_):  # noqa: ARG002 - transformers' signature
            if state.global_step == 3:
                self.trainer.evaluate()

    def rewards(is_evaluated):
        mine, monitor = Evaluating(), connect(run=f"r{is_evaluated}")
        callbacks = [mine, VitalsCallback(monitor)] if is_evaluated else [VitalsCallback(monitor)]
        mine.trainer = tiny_trl.trainer(tmp_path, callbacks, per_device_eval_batch_size=4, logging_steps=4, max_steps=3)
        mine.trainer.train()
        assert monitor.flush(PATIENCE_SECONDS)
        return steps()[3]["trl/rewards/share_of_vowels/mean"]

    alone = rewards(is_evaluated=False)
    assert rewards(is_evaluated=True) == pytest.approx(alone)


def test_a_metric_of_a_logging_window_is_no_metric_of_a_step(run, steps):
    """TRL's mean over a logging window is not sent as the metric of a step; only the step's own metrics are."""
    trainer = run(logging_steps=4, num_iterations=2, per_device_train_batch_size=8, gradient_accumulation_steps=1)
    assert "reward" in trainer.state.log_history[0]
    own = [signals for signals in steps().values() if "trl/rewards/share_of_vowels/mean" in signals]
    assert [len(steps()), len(own)] == [4, 2]


def test_a_total_that_trl_counts_arrives_at_every_step(run, steps):
    """TRL replaces the list of its count of tokens at each rollout; every step has the newest count."""
    run(logging_steps=3)
    counts = [signals["trl/num_tokens"] for signals in steps().values()]
    assert len(counts) == 4
    assert counts == sorted(set(counts))


def test_a_gradient_norm_that_only_the_trainer_knows_arrives_where_it_is_logged(run, steps):
    """The norm is sent where TRL logs it, if clipping returns none (DeepSpeed) or a sharded one (FSDP2)."""

    class Knowing(GRPOTrainer):
        def _maybe_log_save_evaluate(self, tr_loss, grad_norm, *args, **kwargs):  # noqa: ARG002 - transformers' signature
            return super()._maybe_log_save_evaluate(tr_loss, 1.25, *args, **kwargs)

    def clip_without_telling(trainer):
        clip = trainer.accelerator.clip_grad_norm_
        trainer.accelerator.clip_grad_norm_ = lambda *arguments: [clip(*arguments), None][1]

    run(kind=Knowing, prepared=clip_without_telling, logging_steps=2)
    assert [signals.get("grad/norm") for signals in steps().values()] == [None, 1.25, None, 1.25]


def test_a_trainer_without_responses_gives_its_metrics(tmp_path, connect, steps, caplog):
    """TRL's SFTTrainer, which has no rollouts, sends its metrics, and a line names the arguments without effect.

    A reward that is recorded when a batch is fetched, before the step begins, as by AsyncGRPOTrainer, is among them.
    """

    class Fetching(SFTTrainer):
        def get_batch_samples(self, *args, **kwargs):
            self._metrics["train"]["reward"].append(self.state.global_step + 1.0)
            return super().get_batch_samples(*args, **kwargs)

    monitor = connect()
    settings = {"max_steps": 2, "use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no"}
    Fetching(
        model=tiny_trl.model(tmp_path / "model"),
        args=SFTConfig(output_dir=str(tmp_path), logging_steps=1, disable_tqdm=True, **settings),
        train_dataset=Dataset.from_list([{"text": "a b c d"}] * 16),
        processing_class=tiny_trl.tokenizer(),
        callbacks=[VitalsCallback(monitor, correct="exact", probe_every=1)],
    ).train()
    assert monitor.flush(PATIENCE_SECONDS)
    (line,) = [record.message for record in caplog.records if record.name == "trainer_hooks"]
    assert line.endswith(
        "Fetching has no rollouts, so only its metrics are sent, and these arguments of the callback "
        "have no effect: correct, probe_every"
    )
    assert list(steps()) == [1, 2]
    assert all({"loss/policy", "grad/norm", "trl/mean_token_accuracy"} <= found.keys() for found in steps().values())
    assert [found["reward/mean"] for found in steps().values()] == [1, 2]


def test_the_trainer_gets_its_methods_back(run):
    """When training ends, no wrapper of ours is left on the trainer or its accelerator."""
    trainer = run(max_steps=1)
    for owner in (trainer, trainer.accelerator):
        assert not [name for name, value in vars(owner).items() if "trainer_hooks" in repr(value)]
    assert "compute_loss" not in vars(trainer)


def test_training_twice_gives_each_step_once(tmp_path, connect, collector):
    """A second train() of the same trainer wraps once, not twice."""
    monitor = connect()
    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(monitor)], max_steps=2)
    trainer.train()
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    assert [record.step for record in collector.records] == [1, 2, 1, 2]


@needs_minibatches
def test_a_second_training_that_goes_on_with_the_rollouts_of_the_first_has_their_ratios(tmp_path):
    """Updates lie between these rollouts and its first step, and which responses they trained on is not known."""
    recording = Recording()
    options = SEVERAL_PASSES | SEVERAL_MINIBATCHES | {"max_steps": 3}
    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(recording)], **options)
    trainer.train()
    trainer.train()
    goes_on, begins, _ = recording.rollouts[3:]
    assert not torch.allclose(goes_on["old_logprobs"], goes_on["logprobs"], atol=1e-3)
    assert goes_on["trained"] is None
    assert "old_logprobs" not in begins  # of its own rollouts, before any update
    assert begins["trained"] is False


def test_a_wrapper_around_ours_keeps_no_tokens_of_a_second_training(tmp_path, connect):
    """If something else wraps our wrappers and stays, a second training keeps no tensor of an earlier step alive."""
    alive = []

    class Wrapping(TrainerCallback):
        def on_train_begin(self, *_, **__):
            trainer.compute_loss = functools.partial(trainer.compute_loss)

        def on_step_end(self, *_, **__):
            gc.collect()
            alive.append(sum(isinstance(value, torch.Tensor) for value in gc.get_objects()))

    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(connect()), Wrapping()])
    trainer.train()
    trainer.train()
    *_, begin, _, _, end = alive
    assert end - begin < 6  # three steps of two microbatches


def test_without_an_address_nothing_is_touched(tmp_path):
    """Without an address no method is wrapped."""
    callback = VitalsCallback()
    seen = []
    trainer = tiny_trl.trainer(tmp_path, [callback], max_steps=1)
    original = trainer.training_step
    trainer.training_step = lambda *args: seen.append(set(vars(trainer))) or original(*args)
    trainer.train()
    assert seen
    assert "compute_loss" not in seen[0]


def test_a_setting_that_cannot_work_is_reported_before_the_first_step(tmp_path):
    """A malformed address raises an error before anything is generated."""
    trainer = tiny_trl.trainer(tmp_path, [VitalsCallback(url="nonsense")])
    with pytest.raises(trainer_hooks.ConfigurationError, match="url"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_the_run_is_introduced_with_its_name_and_arguments(tmp_path, collector):
    """The run's name, source and training arguments are taken from the trainer."""
    tiny_trl.trainer(tmp_path, [VitalsCallback(url=collector.url)], run_name="my-run", max_steps=1).train()
    assert {batch.run for batch in collector.batches} == {"my-run"}
    assert collector.batches[0].source.startswith("trl ")
    assert collector.batches[0].config["num_generations"] == 4
    assert collector.batches[-1].end == "finished"


@pytest.mark.slow
def test_two_processes_stream_their_shards_and_end_with_the_same_weights(tmp_path, collector, steps):
    """Under DDP the ranks' responses merge to TRL's global numbers, and no weight changes."""

    def launch(folder, *arguments):
        folder.mkdir()
        ranks.launch(Path(tiny_trl.__file__).with_name("ddp_trl.py"), str(folder), *arguments)
        return [(folder / f"rank{rank}.txt").read_text() for rank in (0, 1)]

    alone = launch(tmp_path / "alone")
    watched = launch(tmp_path / "watched", collector.url)
    assert watched == alone
    assert {batch.rank for batch in collector.batches} == {0, 1}
    assert len({batch.attempt for batch in collector.batches}) == 1
    # With the evaluation at step 0, for which the collector waits for both. A log without numbers makes no record.
    assert len(collector.records) == 10
    rewards = [signals["reward/mean"] for step, signals in steps().items() if step > 0]
    logged = [float(reward) for reward in watched[0].split("[")[1].rstrip("]").split(",")]
    assert rewards[::2] == pytest.approx(logged, abs=1e-6)


@pytest.mark.usefixtures("full_precision")
@needs_entropies
@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_what_trl_reports_is_found_again(options, tmp_path, connect, collector):
    """Two of TRL's responses are computed again at every second step: the gap is rounding, and no weight changes."""
    options = options | {"temperature": 0.7, "max_steps": 4, "bf16": False}
    monitor = connect()
    watched = tiny_trl.trainer(tmp_path, [VitalsCallback(monitor, recompute_every=2)], **options)
    watched.train()
    assert monitor.flush(PATIENCE_SECONDS)
    found = [
        {name: summary.value() for name, summary in record.summaries.items() if name.startswith("instrument/")}
        for record in collector.records
    ]
    assert [bool(names) for names in found] == [False, True] * 2
    for gaps in found[1::2]:
        assert 0 <= gaps["instrument/logprob_abs"] <= gaps["instrument/logprob_max"] < 1e-4
        assert gaps["instrument/entropy_abs"] < 1e-4
        assert gaps["instrument/mask_frac"] == 0
    assert not any("hooks/internal_errors" in record.summaries for record in collector.records)
    generators = torch.get_rng_state(), random.getstate()
    alone = tiny_trl.trainer(tmp_path, **options)
    alone.train()
    assert tiny_trl.weights(watched) == tiny_trl.weights(alone)
    assert torch.equal(generators[0], torch.get_rng_state())
    assert generators[1] == random.getstate()


class WrongTemperature(GRPOTrainer):
    """A trainer whose scorer reports numbers of another temperature than the one that it samples at."""

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        logprobs, entropies, *rest = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        return 0.5 * logprobs, entropies, *rest


class StaleScores(GRPOTrainer):
    """A trainer that scores with the weights that it began with, and takes only the gradients from the new ones."""

    def _get_per_token_logps_and_entropies(self, model, *args, **kwargs):
        self._first = getattr(self, "_first", None) or copy.deepcopy(model)
        logprobs, *rest = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        with torch.no_grad():
            stale = super()._get_per_token_logps_and_entropies(self._first, *args, **kwargs)[0]
        return stale + logprobs - logprobs.detach(), *rest


class ShiftedMask(GRPOTrainer):
    """A trainer whose mask of a response begins one token late."""

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        batch["completion_mask"] = batch["completion_mask"].roll(1, dims=1)
        batch["completion_mask"][:, 0] = 0
        return batch


@needs_entropies
@pytest.mark.parametrize(
    ("kind", "signal"),
    [
        (WrongTemperature, "instrument/logprob_abs"),
        (StaleScores, "instrument/logprob_abs"),
        (ShiftedMask, "instrument/mask_frac"),
    ],
)
def test_a_trainer_that_reports_wrong_numbers_is_found(kind, signal, tmp_path, connect, collector):
    """Wrong temperature, stale weights and a shifted mask are each far beyond rounding."""
    monitor = connect()
    callback = VitalsCallback(monitor, recompute_every=2, recompute_responses=4)
    tiny_trl.trainer(tmp_path, [callback], kind=kind, learning_rate=0.1).train()
    assert monitor.flush(PATIENCE_SECONDS)
    gaps = [record.summaries[signal].value() for record in collector.records if record.step % 2 == 0]
    assert all(gap > 0.05 for gap in gaps)


@pytest.mark.skipif(
    "rollout_func" not in inspect.signature(GRPOTrainer).parameters, reason="this TRL knows no rollout_func"
)
def test_feedback_that_only_later_responses_have_is_not_compared_with_the_turns_of_earlier_ones(
    tmp_path, connect, collector
):
    """The first step has a single turn, whose end is known; where turns begin again in the second step is not."""
    made = []

    def rollout_func(prompts, trainer):  # noqa: ARG001 - TRL's signature
        made.append(len(prompts))
        tokens = [5, 6, 1, 8, 9, 10, 1] if len(made) > 1 else [5, 6, 7, 8, 9, 10, 1]
        columns = {"prompt_ids": [3, 4], "completion_ids": tokens, "logprobs": [-1.0] * len(tokens)}
        if len(made) > 1:
            columns["env_mask"] = [1, 1, 1, 0, 0, 1, 1]
        return {name: [column] * len(prompts) for name, column in columns.items()}

    monitor = connect()
    callback = VitalsCallback(monitor, recompute_every=1)
    tiny_trl.trainer(tmp_path, [callback], rollout_func=rollout_func, max_steps=2, num_iterations=1).train()
    assert monitor.flush(PATIENCE_SECONDS)
    masks = [record.summaries.get("instrument/mask_frac") for record in collector.records]
    assert [mask is None or mask.value() for mask in masks] == [0.0, True]
    assert len(made) > 1


@needs_entropies
def test_dropout_makes_the_numbers_of_trl_not_observed(tmp_path, connect, collector):
    """With attention dropout the numbers are those of one draw, so no gap is reported."""

    def with_dropout(folder):
        model = tiny_trl.model(folder)
        for layer in model.model.layers:
            layer.self_attn.attention_dropout = 0.5
        return model

    monitor = connect()
    callback = VitalsCallback(monitor, recompute_every=1)
    tiny_trl.trainer(tmp_path, [callback], model_of=with_dropout).train()
    assert monitor.flush(PATIENCE_SECONDS)
    assert not [name for record in collector.records for name in record.summaries if name.startswith("instrument/")]


def test_a_metric_that_no_float_can_hold_costs_itself_alone():
    """It is returned as it is, so that `log_step` counts it; a reward that is NaN is left out beside it."""
    trainer = SimpleNamespace(_metrics={"train": {"mine": [10**400, 2], "reward": [10**400, math.nan], "kl": [0.5]}})
    found = StepMetrics(trainer).means(has_ratios=True)
    assert found == {"trl/mine": 10**400 + 2, "reward/mean": 10**400, "kl/ref": 0.5}


@pytest.mark.parametrize("value", [torch.tensor([1.0, 2.0]), "a text", None, [1.0, math.nan]])
def test_a_metric_that_is_no_number_costs_itself_alone(value):
    """A trainer of the user's own may record anything."""
    trainer = SimpleNamespace(_metrics={"train": {"mine": [value], "reward": [0.5], "kl": [0.1]}})
    assert StepMetrics(trainer).means(has_ratios=True) == {"reward/mean": 0.5, "kl/ref": 0.1}


def test_a_metric_that_is_nan_in_a_part_of_the_step_is_the_mean_of_the_others():
    """TRL's rewards of a function are NaN in a rollout that it did not grade; a divergence of NaN is a finding."""
    lists = {"rewards/half/mean": [math.nan, 1.0, 0.5], "rewards/none/mean": [math.nan], "kl": [math.nan, 0.5]}
    found = StepMetrics(SimpleNamespace(_metrics={"train": lists})).means(has_ratios=True)
    assert found == {"trl/rewards/half/mean": 0.75, "kl/ref": pytest.approx(math.nan, nan_ok=True)}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("async_grpo.AsyncGRPOTrainer", {"kl/old": 0.5, "ratio/clip_frac": 0.25, "trl/batch/pad_frac": 0.25}),
        ("kto.KTOTrainer", {"trl/kl": 0.5, "trl/batch/pad_frac": 0.25}),
    ],
)
def test_a_metric_means_what_its_trainer_measures(kind, expected):
    """The divergence of AsyncGRPOTrainer is from the policy that sampled, that of KTOTrainer is of whole responses.

    AsyncGRPOTrainer is never on-policy, and its rates are pairs whose parts are added up. Older trainers log these
    metrics without collecting them in lists.
    """
    module, name = kind.split(".")
    found = getattr(pytest.importorskip(f"trl.experimental.{module}"), name)

    class Own(found):
        def __init__(self):
            rates = [(1, 2), (0, 2)]
            self._metrics = {"train": {"kl": [0.5], "clip_ratio/region_mean": [0.25], "batch/pad_frac": rates}}

    trainer = Own()
    assert StepMetrics(trainer).means(has_ratios=False) == expected
    trainer._metrics, trainer.model = {}, torch.nn.Linear(1, 1)
    assert RolloutCapture(trainer, Guard()).logged_numbers({"kl": 0.5}).items() <= expected.items()


def test_a_token_that_the_tokenizer_lacks_is_refused_before_training():
    """`convert_tokens_to_ids` returns None for it; refused with each step, it would cost all token signals."""
    with pytest.raises(trainer_hooks.RolloutsError, match="control_ids must hold integers"):
        VitalsCallback(control_ids=[None])


def test_an_interval_of_recomputation_below_zero_is_refused():
    """The error is raised before training begins."""
    with pytest.raises(ValueError, match="every must be at least 1, got -1"):
        VitalsCallback(recompute_every=-1)
