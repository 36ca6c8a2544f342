"""The trainer: the work of a step, the values that it leaves unchanged, and its repetition to the last bit."""

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest
import torch

from trainer_hooks import Rollouts
from trainer_hooks.losses import llds_loss
from trainer_hooks.losses.token_arrays import action_index
from trainer_hooks.probes.recomputation import RecomputationProbe
from trainer_hooks.recording.responses.sampler import ResponseSampler
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.measurements.recomputation import recompute_batch
from trainer_hooks.reference.methods import METHODS, MethodName
from trainer_hooks.reference.policy.model import PolicyModel
from trainer_hooks.reference.policy.token_sampling import sampler_logprobs
from trainer_hooks.reference.policy.warm_start import shape_of, warm_start
from trainer_hooks.reference.presets import PRESETS
from trainer_hooks.reference.run.telemetry import append_log, line, numbers, rollouts, step_warnings
from trainer_hooks.reference.run.trainer import Trainer, TrainingError
from trainer_hooks.reference.updates.batch import prepare
from trainer_hooks.reference.updates.objective import policy_losses
from trainer_hooks.signals import fetch, finish_summaries
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.families import instrument
from trainer_hooks.wire import decode_response, merge


def train(config, steps):
    """Train from the warm start; return the results and the weights."""
    trainer = Trainer(config, warm_start(config))
    results = [trainer.step() for _ in range(steps)]
    return results, torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])


def test_the_same_seed_gives_the_same_run_to_the_last_bit(tiny):
    """Two runs agree in every number and every weight; the global generator is left alone."""
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one, weights_one = train(tiny, 3)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    two, weights_two = train(tiny, 3)
    assert torch.equal(weights_one, weights_two)
    assert [result.scalars for result in one] == [result.scalars for result in two]
    assert all(torch.equal(a.batch.tokens, b.batch.tokens) for a, b in zip(one, two, strict=True))


def test_another_seed_gives_another_run(tiny):
    """The seed decides questions and samples."""
    _, one = train(tiny, 1)
    _, two = train(replace(tiny, seed=1), 1)
    assert not torch.equal(one, two)


def test_llds_with_one_update_a_rollout_changes_nothing_and_is_warned_of(tiny):
    """λ = 1 and λ = 0 give the same weights to the last bit where θ = θ_old at the only update."""
    once = replace(tiny, minibatches=1, epochs=1)
    _, vanilla = train(once, 3)
    _, llds = train(replace(once, method="llds", lambda_=1.0), 3)
    assert torch.equal(vanilla, llds)
    assert replace(once, method="llds").is_llds_inert
    assert replace(once, on_acceleration="rollback+llds", checkpoint_every=1).is_llds_inert
    assert not replace(tiny, method="llds").is_llds_inert
    assert not once.is_llds_inert


def test_llds_acts_at_the_first_update_where_the_old_policy_is_the_sampler(tiny):
    """At another temperature likelihoods differ from the sampler's before any update, so nothing warns of it."""
    once = replace(tiny, minibatches=1, epochs=1, temperature=0.5, old_logprobs="sampler")
    llds = replace(once, method="llds", lambda_=1.0)
    assert not torch.equal(train(once, 1)[1], train(llds, 1)[1])
    assert not llds.is_llds_inert
    assert replace(llds, temperature=1.0).is_llds_inert


def test_llds_acts_from_the_second_update(tiny):
    """With several minibatches, λ changes the run."""
    _, vanilla = train(replace(tiny, lr=5e-3), 2)
    _, llds = train(replace(tiny, lr=5e-3, method="llds", lambda_=1.0), 2)
    assert not torch.equal(vanilla, llds)


def test_nthr_softens_tokens_of_wrong_responses_only(tiny):
    """Scales below 1 stand in incorrect responses of mixed groups, and the run is another one."""
    softened, with_nthr = train(replace(tiny, method="nthr"), 2)
    _, without = train(tiny, 2)
    batch = softened[-1].batch
    is_soft = batch.token_scales < 1
    assert is_soft.any()
    assert (batch.advantages[is_soft.any(dim=1)] < 0).all()
    assert not (is_soft & ~batch.mask).any()
    assert not torch.equal(with_nthr, without)


def test_kl_to_the_warm_start_is_zero_at_first_and_acts_later(tiny):
    """The k3 estimate is 0 at the warm start, and its weight holds the policy back."""
    with_kl, weights = train(replace(tiny, kl=5.0, lr=5e-3, minibatches=1, epochs=1), 1)
    assert with_kl[0].scalars["kl/ref"] == 0.0
    with_kl, held = train(replace(tiny, kl=5.0, lr=5e-3), 3)
    _, free = train(replace(tiny, lr=5e-3), 3)
    assert with_kl[-1].scalars["kl/ref"] > 0
    assert not torch.equal(held, free)
    assert weights.isfinite().all()


def test_the_learning_rate_climbs_in_a_straight_line_and_stays(tiny):
    """Four warm-up steps to 8e-4: a quarter more each step, then constant."""
    results, _ = train(replace(tiny, lr=8e-4, lr_warmup=4), 5)
    assert [result.scalars["lr"] for result in results] == pytest.approx([2e-4, 4e-4, 6e-4, 8e-4, 8e-4])


def test_held_out_responses_are_measured_and_never_trained_on(tiny):
    """Without training groups' gradients the paired entropy change is exactly zero."""
    still, _ = train(replace(tiny, lr=1e-30), 1)
    assert still[0].scalars["entropy/paired_delta"] == 0.0
    assert len(still[0].batch.episodes) == tiny.questions_per_step * tiny.group_size
    moved, _ = train(replace(tiny, lr=5e-3), 1)
    assert moved[0].scalars["entropy/paired_delta"] != 0.0
    without, _ = train(replace(tiny, held_out=0), 1)
    assert "entropy/paired_delta" not in without[0].scalars


def test_the_gradient_norm_is_that_before_clipping(tiny):
    """A limit far below the norm leaves the reported norm of the first update where it was."""
    once = replace(tiny, minibatches=1, epochs=1)
    free, _ = train(replace(once, max_grad_norm=0.0), 1)
    clipped, _ = train(replace(once, max_grad_norm=1e-4), 1)
    assert free[0].grad_norm == clipped[0].grad_norm > 1e-4


def test_every_method_trains_by_its_name_and_is_another_run(tiny):
    """One option: each name gives finite and different weights; λ = 0 is vanilla GRPO to the last bit."""
    # With the default target, stare leaves this policy alone, because its entropy is above the target.
    config = replace(tiny, lr=5e-3, target_entropy=10.0)
    weights = {name: train(replace(config, method=name), 2)[1] for name in METHODS}
    assert all(one.isfinite().all() for one in weights.values())
    names = sorted(weights)
    same = [(a, b) for a in names for b in names if a < b and torch.equal(weights[a], weights[b])]
    assert not same
    _, without = train(replace(config, method="llds", lambda_=0.0), 2)
    assert torch.equal(without, weights["grpo"])


@pytest.mark.parametrize(("method", "clip"), [("kl-cov", 0.2), ("acpo", 0.2), ("grpo", 1.0), ("grpo", math.inf)])
def test_a_clip_that_no_two_numbers_describe_is_not_observed(tiny, method, clip):
    """KL-Cov clips nothing, ACPO each token by its own ε, and an ε from 1 on nothing below: no share is clipped.

    Every other signal is there.
    """
    config = replace(tiny, method=method, clip=clip, lr=5e-3)
    results, _ = train(config, 1)
    assert config.reported_clip is None
    found = numbers(results[0], clip=config.reported_clip)
    assert "ratio/clip_frac" not in found
    assert found.keys() >= {"ratio/max", "reward/mean"}
    assert ("loss/kl_cov" in found) is (method == "kl-cov")


def test_clip_higher_leaves_likelier_tokens_unclipped(tiny):
    """With ε above at a large value, no token with A > 0 is clipped; the run differs from that with a single ε."""
    config = replace(tiny, clip=0.01, lr=5e-3)
    results, weights = train(config, 2)
    higher, other = train(replace(config, clip_high=100.0), 2)
    assert not torch.equal(weights, other)
    assert max(numbers(result, clip=(0.01, 0.01)).get("ratio/clip_high_frac", 0.0) for result in results) > 0
    assert not any(numbers(result, clip=(0.01, 100.0)).get("ratio/clip_high_frac") for result in higher)
    with pytest.raises(ValueError, match="clip_high must be above 0, got 0"):
        replace(tiny, clip_high=0)
    with pytest.raises(ValueError, match="clip_high has no effect under acpo"):
        replace(tiny, clip_high=0.3, method="acpo")


def test_stare_acts_below_its_target_entropy_alone(tiny):
    """With a target of 0 the run is vanilla GRPO to the last bit; the factors of the batch are then all 1."""
    config = replace(tiny, method="stare", target_entropy=0.0, lr=5e-3)
    results, weights = train(config, 2)
    _, plain = train(replace(tiny, lr=5e-3), 2)
    assert torch.equal(weights, plain)
    assert all((result.batch.token_scales == 1).all() for result in results)


def test_a_gradient_that_is_not_finite_is_reported_and_not_applied(tiny):
    """NaN in the old log-probabilities gives NaN as loss and norm; no weight moves."""
    trainer = Trainer(tiny, warm_start(tiny))
    batch = trainer.step().batch
    before = [weight.detach().clone() for weight in trainer.model.parameters()]
    part = batch.minibatches[0]
    batch.advantages[part.rows] = 1.0
    batch.old_logprobs[part.rows] = torch.nan
    update = trainer.learner.update(batch, part)
    assert math.isnan(update["grad/norm"])
    assert math.isnan(update["loss/policy"])
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


def test_a_batch_without_a_correct_response_is_trained_and_reported(tiny):
    """All wrong: no advantage, no gradient, no likelihood of correct responses; the line says nan, not 0, and why."""
    trainer = Trainer(tiny, warm_start(tiny))
    torch.nn.init.zeros_(trainer.model.embed.weight)
    result = trainer.step()
    assert not result.batch.rewards.any()
    assert result.grad_norm == 0.0
    assert "ln p(correct) +nan" in line(result, "unknown")
    assert "likelihood/correct" not in numbers(result, clip=0.2)
    warned = step_warnings(result)
    assert warned["wrong"] == "none of 16 responses is correct: their likelihood is not observed"
    assert warned["equal"].startswith("all rewards are equal within their groups: every advantage is 0")


def test_a_group_of_one_is_refused_where_it_teaches_nothing(tiny):
    """GRPO compares responses of a group; PPO does not and trains."""
    with pytest.raises(ValueError, match="group_size must be at least 2 under grpo, got 1: a response alone"):
        replace(tiny, group_size=1)
    results, _ = train(replace(tiny, group_size=1, questions_per_step=32, method="ppo"), 1)
    assert results[0].batch.advantages.any()


def test_responses_without_an_action_token_are_counted_or_end_the_run(tiny):
    """Prompts of 4 and 5 tokens in a context of 5: some have room for one token; in a context of 4 none has."""
    trainer = Trainer(replace(tiny, context=5), PolicyModel(replace(shape_of(tiny), positions=5)))
    result = trainer.step()
    empty = int((~result.batch.mask.any(dim=1)).sum())
    assert 0 < empty < len(result.batch.rewards)
    assert step_warnings(result)["empty"] == f"{empty} of 16 responses have no action token: raise --context"
    assert numbers(result, clip=0.2)["length/truncated_frac"] == 1.0
    full = Trainer(replace(tiny, context=4), PolicyModel(replace(shape_of(tiny), positions=4)))
    with pytest.raises(TrainingError, match="must have an action token, got none in 20 of step 1: prompts leave no"):
        full.step()


def test_weights_that_give_no_probabilities_end_the_run(tiny):
    """After an absurd learning rate the message names the setting to lower, without an error of torch's sampler."""
    trainer = Trainer(replace(tiny, lr=1e30), warm_start(tiny))
    with pytest.raises(TrainingError, match="logits must be finite, got NaN or Inf after the updates of step 1: the w"):
        trainer.step()


def test_updates_left_out_are_counted_and_reported(tiny, monkeypatch):
    """A reward of NaN poisons the advantages of its minibatch, whose updates are then left out."""
    trainer = Trainer(tiny, warm_start(tiny))
    sampled = trainer.model.sample

    def spoiled(*arguments, **options):
        rollout = sampled(*arguments, **options)
        rollout.rewards[0] = torch.nan
        return rollout

    monkeypatch.setattr(trainer.model, "sample", spoiled)
    result = trainer.step()
    assert result.skipped == (2, 4)
    assert step_warnings(result)["skipped"] == "2 of 4 updates left out: the gradient is not finite"
    assert math.isnan(result.grad_norm)
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


def test_current_log_probabilities_are_those_of_the_last_pass(tiny):
    """With one update they equal the old ones; with more, the second pass uses the changed policy."""
    once, _ = train(replace(tiny, minibatches=1, epochs=1), 1)
    assert torch.equal(once[0].batch.logprobs, once[0].batch.old_logprobs)
    twice, _ = train(replace(tiny, lr=5e-3), 1)
    assert not torch.equal(twice[0].batch.logprobs, twice[0].batch.old_logprobs)


def test_numbers_of_a_step_go_to_terminal_and_file(tiny, tmp_path):
    """A line names step and phase; the file has one JSON object a step."""
    results, _ = train(tiny, 2)
    assert line(results[0], "warmup").startswith("step    1  reward ")
    assert line(results[0], "warmup").endswith("phase warmup")
    for result in results:
        append_log(tmp_path / "log.jsonl", result.step, numbers(result, clip=0.2))
    logged = [json.loads(text) for text in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged] == [1, 2]
    assert logged[0]["reward/mean"] == pytest.approx(results[0].batch.rewards.mean().item())
    assert numbers(results[1], clip=0.2)["entropy/paired_delta"] == logged[1]["entropy/paired_delta"]


def test_a_collector_sees_what_the_trainer_measured(tiny, collector, connect):
    """Steps streamed through the public SDK arrive with the trainer's own numbers, every diagnostic among them."""
    config = replace(tiny, questions_per_step=16, group_size=8, probe_every=1)
    results, _ = train(config, 2)
    monitor = connect()
    for result in results:
        monitor.log_step(
            result.step, scalars=result.scalars, rollouts=rollouts(result, clip=0.2), grad_norm=result.grad_norm
        )
    monitor.close()
    for record, result in zip(collector.records, results, strict=True):
        seen = merge([record])
        batch = result.batch
        correct = batch.mask & (batch.rewards > 0)[:, None]
        assert record.step == result.step
        assert seen["reward/mean"] == pytest.approx(batch.rewards.mean().item())
        assert seen["likelihood/correct"] == pytest.approx(batch.logprobs[correct].mean().item(), rel=1e-5)
        for action in (0, 1):
            tokens = correct & (action_index(batch.mask) == action)
            assert seen[f"likelihood/action{action}"] == pytest.approx(batch.logprobs[tokens].mean().item(), rel=1e-5)
        assert seen["similarity/first_action_shared"] == pytest.approx(shared_first_searches(batch))
        changes = [probe.displacement[1.0] for probe in result.probes.values()]
        assert seen["probe/displacement_mean"] == pytest.approx(sum(changes) / len(changes))
        assert seen["probe/fell_frac"] == sum(change < 0 for change in changes) / len(changes)
        fell = torch.where(batch.mask & (batch.advantages >= 0)[:, None], batch.old_logprobs - batch.logprobs, 0.0)
        kept = batch.mask & (batch.advantages >= 0)[:, None]
        assert seen["lld/penalty_tokens_frac"] == pytest.approx(((fell > 0).sum() / kept.sum()).item())
        gated = (fell.sum(dim=1) > 0).sum() / (batch.advantages >= 0).sum()
        assert seen["lld/gated_responses_frac"] == pytest.approx(gated.item(), abs=0.02)
        assert 0 < seen["lld/gated_actions_frac"] < 1
        for name in ("entropy/paired_delta", "similarity/gwhes"):
            assert seen[name] == result.scalars[name]
        assert seen["grad/norm"] == result.grad_norm
        assert {"ratio/max", "displacement/self", "control/prob"} <= seen.keys()


def shared_first_searches(batch):
    """Share of wrong responses of mixed groups whose first search returned the results of a correct response's."""
    first = [episode.first_feedback for episode in batch.episodes]
    rewards, groups = batch.rewards.tolist(), batch.group_ids.tolist()
    shared = []
    for row, (reward, group) in enumerate(zip(rewards, groups, strict=True)):
        right = {first[i] for i in range(len(first)) if groups[i] == group and rewards[i] > 0}
        if reward == 0 and right:
            shared.append(first[row] >= 0 and first[row] in right)
    return sum(shared) / len(shared)


def test_a_warm_start_is_written_whole_beside_a_file_that_another_rank_is_writing(tiny, tmp_path):
    """Ranks that start at once write to files of their own; none renames the unfinished file of another."""
    config = replace(tiny, warm_steps=2, cache=tmp_path)
    warm_start(config)
    (kept,) = tmp_path.iterdir()
    kept.unlink()
    unfinished = kept.with_name(f"{kept.name}.part")
    unfinished.mkdir()  # in the way of anybody who would write to this name
    model = warm_start(config)
    assert {path.name for path in tmp_path.iterdir()} == {kept.name, unfinished.name}
    again = warm_start(config)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_a_kept_warm_start_is_the_one_that_was_trained(tiny, tmp_path):
    """Trained now or read from the cache: the same weights; another model size, another file."""
    fresh = replace(tiny, cache=tmp_path, warm_steps=5)
    lines = []
    trained = warm_start(fresh, report=lines.append)
    read = warm_start(fresh, report=lines.append)
    assert lines[-1].startswith("warm start read from")
    assert all(torch.equal(a, b) for a, b in zip(trained.parameters(), read.parameters(), strict=True))
    warm_start(replace(fresh, width=16), report=lines.append)
    assert len(list(tmp_path.glob("warm-*.pt"))) == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lr": 0.0}, "lr must be above 0, got 0.0"),
        ({"minibatches": 3}, "minibatches must divide questions_per_step, got 3 and 8"),
        ({"method": "dpo"}, "method must be one of grpo, lld, llds, .*, got 'dpo'"),
        ({"method": "llds", "lambda_": -1.0}, "lambda_ must not be negative, got -1.0"),
        ({"lambda_": 0.1}, r"lambda_ must be given with a method that it weighs \(lld, llds, .*\), got 'grpo'"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda, got 'tpu'"),
        ({"gae_lambda": 1.5}, r"gae_lambda must be in \[0, 1\], got 1.5"),
        ({"lr": float("nan")}, "lr must be above 0, got nan"),
        ({"heads": 3}, "width must be a multiple of heads, got 64 and 3"),
        ({"heads": 0}, "heads must be above 0, got 0"),
        ({"lr": float("inf")}, "lr must be a finite number, got inf"),
        ({"kl": float("inf")}, "kl must be a finite number, got inf"),
        ({"lld_epsilon": float("nan")}, "lld_epsilon must be a finite number, got nan"),
        ({"run": "../mine"}, r"run must name a folder below the checkpoints, got '\.\./mine'"),
        ({"run": "/mine"}, "run must name a folder below the checkpoints, got '/mine'"),
        ({"seed": 2**63}, "seed must be a whole number of 64 bits, .* got 9223372036854775808"),
        ({"threads": 10**5}, "threads must be at most 4096, got 100000"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong, message):
    """The message has the condition and the given value."""
    with pytest.raises(ValueError, match=message):
        Config(**wrong)


@pytest.mark.parametrize(
    ("idle", "needed"),
    [
        (["--covariance-share", "0.5"], ["--method", "kl-cov"]),
        (["--target-entropy", "3"], ["--method", "stare"]),
        (["--gae-lambda", "0.5"], ["--method", "ppo"]),
        (["--prompt", "none.txt"], ["--model", "m", "--questions", "q", "--corpus", "c"]),
        (["--probe-sweep"], ["--probe-every", "2"]),
        (["--recompute-responses", "7"], ["--recompute-every", "2"]),
        (["--rollback-lr", "0.5"], ["--on-acceleration", "rollback+llds", "--checkpoint-every", "1"]),
        (["--max-rollbacks", "9"], ["--on-acceleration", "fork", "--checkpoint-every", "1"]),
        (["--fork-steps", "9"], ["--on-acceleration", "fork", "--checkpoint-every", "1"]),
        (["--protocol-lr", "0.1"], ["--resume"]),
    ],
    ids=str,
)
def test_an_option_without_effect_is_refused(idle, needed, capsys):
    """Unless the run is resumed, which needs what it has begun with; the line names what is missing."""
    with pytest.raises(SystemExit):
        Config.from_command_line(idle)
    assert f"error: {idle[0][2:].replace('-', '_')} has no effect without " in capsys.readouterr().err
    Config.from_command_line([*idle, *needed])


def test_a_limit_may_have_no_end():
    """An infinite bound of the ratio clips nothing, and an infinite norm scales no gradient."""
    assert Config(clip_high=float("inf"), max_grad_norm=float("inf")).clip_range == (0.2, float("inf"))


def test_checkpoints_have_the_name_of_the_run_unless_their_folder_is_given():
    """A name may have folders of its own below the cache, and any form beside a folder that is given."""
    assert Config(run="team/mine").checkpoint_folder == Path(".rlvitals/checkpoints/team/mine")
    assert Config(run="../mine", checkpoints=Path("/kept")).checkpoint_folder == Path("/kept")


def test_a_step_that_asks_more_questions_than_there_are_is_refused(tiny):
    """Before anything is sampled."""
    with pytest.raises(ValueError, match=r"questions_per_step must be at most .*, got 4 and 3"):
        Trainer(replace(tiny, train_questions=3), warm_start(tiny))


def test_the_command_line_knows_every_setting(capsys):
    """--help lists each field with its meaning; options override the preset."""
    with pytest.raises(SystemExit):
        Config.from_command_line(["--help"])
    help_text = capsys.readouterr().out
    assert "weight of the penalty" in help_text
    for setting in fields(Config):
        assert f"\n  --{setting.name.strip('_').replace('_', '-')}" in help_text
    assert "[None]" not in help_text
    config = Config.from_command_line(["--preset", "tiny", "--method", "llds", "--no-retry", "--steps", "7"])
    assert (config.llds_weight, config.retry, config.steps) == (0.1, False, 7)
    assert (config.entities, config.run_name) == (PRESETS["tiny"]["entities"], "llds-0.1-seed0")
    assert set(get_args(MethodName)) == METHODS.keys()
    with pytest.raises(SystemExit):
        Config.from_command_line(["--minibatches", "3"])
    usage, error = capsys.readouterr().err.splitlines()
    assert "--help" in usage
    assert "must divide" in error


@pytest.mark.parametrize(("method", "gate"), [("llds-release", "action"), ("llds-release-response", "response")])
def test_llds_release_divides_by_all_tokens_and_weighs_a_fifth(tiny, method, gate):
    """The authors' release: λ = 0.2, the gate by action, N the action tokens of the minibatch; and by response."""
    config = replace(tiny, method=method, lr=2e-3)
    assert config.llds_weight == 0.2
    trainer = Trainer(config, warm_start(config))
    batch = next(result.batch for result in (trainer.step() for _ in range(20)) if result.batch.advantages.any())
    part = batch.minibatches[0]
    rows = part.rows
    arrays = batch.logprobs[rows] - 0.1, batch.old_logprobs[rows], batch.mask[rows], batch.advantages[rows]
    found = policy_losses(batch, part, arrays[0], config=config)["loss/llds"]
    assert found.item() == pytest.approx(llds_loss(*arrays, gate=gate, normaliser="all").item(), rel=1e-6)


def test_the_weight_of_the_answer_adapts_to_the_valid_searches(tiny):
    """Half a weight, times the valid searches beyond the first, up to 1."""
    config = replace(tiny, method="llds-ma", answer_weight=0.5, answer_adaptive=True)
    batch = Trainer(config, warm_start(config)).step().batch
    searches = sum(episode.tool_calls_valid for episode in batch.episodes) / len(batch.episodes)
    assert batch.answer_weight == pytest.approx(min(1.0, 0.5 * max(searches - 1, 0)))
    with pytest.raises(ValueError, match="answer_weight and answer_adaptive must be given with llds-ma"):
        replace(tiny, method="llds", answer_weight=0.5)


@pytest.mark.parametrize("settings", [{"temperature": 1.4}, {"top_p": 0.8}])
def test_a_sampler_that_is_not_the_policy_keeps_its_own_log_probabilities(settings, tiny):
    """They are those of softmax(z / T) over the top-p set; an option chooses the policy's or the sampler's π_old."""
    for choice in ("recomputed", "sampler"):
        trainer = Trainer(replace(tiny, old_logprobs=choice, **settings), warm_start(tiny))
        training, _ = trainer.sample()
        batch = prepare(trainer.model, training, trainer.config, generator=trainer.generator)
        rows, columns = batch.mask.nonzero(as_tuple=True)
        with torch.no_grad():
            logits = trainer.model.logits(trainer.model.hidden_states(batch.tokens)[rows, columns - 1])
        expected = sampler_logprobs(
            logits, batch.tokens[rows, columns], settings.get("temperature", 1.0), settings.get("top_p", 1.0)
        )
        assert torch.allclose(batch.sampler_logprobs[rows, columns], expected, atol=1e-4)
        assert not batch.sampler_logprobs[~batch.mask].any()
        policy = logits.log_softmax(dim=-1).gather(1, batch.tokens[rows, columns][:, None])[:, 0]
        old = batch.old_logprobs[rows, columns]
        assert torch.allclose(old, expected if choice == "sampler" else policy, atol=1e-4)
        assert not torch.allclose(expected, policy, atol=1e-2)


def test_the_mismatch_of_a_sampler_that_is_not_the_policy_reaches_the_sampled_responses(tiny):
    """Each token has ln π_old − ln q of the sampler's distribution q; feedback has none."""
    batch = (result := Trainer(replace(tiny, temperature=1.4), warm_start(tiny)).step()).batch
    tokens = ActionTokens.of(Rollouts(**rollouts(result, clip=0.2)))
    responses = [
        decode_response(raw) for raw in ResponseSampler(count=9, max_bytes=1 << 20).sample(tokens, seed="").encoded
    ]
    gaps = [gap[row] for gap, row in zip(batch.old_logprobs - batch.sampler_logprobs, batch.mask, strict=True)]
    for response in responses:
        held = torch.tensor(response.mismatches.to_numpy().copy()).float()
        assert held.abs().max() > 0.1
        assert any(len(gap) == len(held) and torch.allclose(gap, held, atol=1e-2) for gap in gaps)


def test_a_sampler_that_is_the_old_policy_has_no_mismatch(tiny):
    """With the sampler's log-probabilities as the denominator of the ratio the gap would be 0, and is not observed."""
    config = replace(tiny, temperature=1.4, old_logprobs="sampler")
    sent = rollouts(Trainer(config, warm_start(config)).step(), clip=0.2)
    assert sent["sampler_logprobs"] is None
    assert sent["old_logprobs"] is not None


@pytest.mark.parametrize("choice", ["recomputed", "sampler"])
def test_a_sampler_that_had_no_choice_hides_no_other_signal(choice, tiny):
    """With a top-p that leaves one token every draw is certain; its log-probabilities, all 0, are left out."""
    config = replace(tiny, top_p=1e-3, old_logprobs=choice)
    result = Trainer(config, warm_start(config)).step()
    assert not result.batch.sampler_logprobs.any()
    sent = rollouts(result, clip=0.2)
    assert sent["sampler_logprobs"] is None
    assert (sent["old_logprobs"] is None) == (choice == "sampler")
    assert {"reward/mean", "entropy/mean"} <= set(numbers(result, clip=0.2))


def test_arrays_that_contradict_each_other_are_counted_in_the_numbers_too(tiny):
    """A policy that one update made certain of every token: the step keeps its other numbers, as in the SDK."""
    result = Trainer(tiny, warm_start(tiny)).step()
    result.batch.logprobs.zero_()
    found = numbers(result, clip=0.2)
    assert found["hooks/rejected_rollouts"] == 1
    assert "reward/mean" not in found
    assert found["grad/norm"] == result.grad_norm


def test_a_sampler_that_is_the_policy_keeps_no_second_log_probabilities(tiny):
    """At temperature 1 and top-p 1 neither a batch nor the stream gets further values."""
    result = Trainer(tiny, warm_start(tiny)).step()
    assert result.batch.sampler_logprobs is None
    assert rollouts(result, clip=0.2)["sampler_logprobs"] is None


def test_the_entropy_bonus_and_weight_decay_act(tiny):
    """An entropy bonus alone raises entropy, and weight decay alone shrinks weights, where no reward differs."""
    base = replace(tiny, entropy_bonus=1.0, lr=1e-3, held_out=0)
    trainer = Trainer(base, warm_start(base))
    first = trainer.step().batch
    second = [trainer.step().batch for _ in range(4)][-1]
    mean = [(batch.entropies * batch.mask).sum() / batch.mask.sum() for batch in (first, second)]
    assert mean[1] > mean[0]
    decayed = Trainer(replace(tiny, weight_decay=0.1), warm_start(tiny)).learner.optimiser
    assert decayed.param_groups[0]["weight_decay"] == 0.1


def test_the_schedule_of_the_release_is_what_its_page_says():
    """Ten updates of eight questions in one pass, a climb of 286 steps, KL, entropy bonus, top-p and weight decay."""
    config = Config(**PRESETS["release"])
    assert (config.questions_per_step, config.group_size, config.minibatches, config.epochs) == (80, 5, 10, 1)
    assert (config.lr_warmup, config.kl, config.entropy_bonus) == (286, 1e-3, 1e-3)
    assert (config.top_p, config.weight_decay) == (0.95, 0.01)
    own = Config(**PRESETS["search-r1"])
    assert own.unbiased_std
    assert not config.unbiased_std  # its runs were recorded without it
    assert (own.lr, own.lr_warmup, own.minibatches, own.epochs, own.top_p) == (1e-6, 286, 10, 1, 0.95)


def test_advantages_may_be_divided_by_the_unbiased_deviation(tiny):
    """In groups of four they are √(3/4) times as large."""
    plain, unbiased = (train(each, 1)[0][0].batch for each in (tiny, replace(tiny, unbiased_std=True)))
    assert plain.advantages.any()
    assert torch.allclose(unbiased.advantages, plain.advantages * math.sqrt(3 / 4))


def test_what_the_trainer_reports_is_found_again(tiny):
    """At every second step the gap to a second computation is rounding, the masks agree, and no weight changes."""
    watched, weights = train(replace(tiny, recompute_every=2, recompute_responses=8, lr=5e-3), 4)
    assert [bool(result.recomputed) for result in watched] == [False, True, False, True]
    for result in watched[1::2]:
        found = numbers(result, clip=0.2)
        assert found["instrument/logprob_abs"] <= found["instrument/logprob_max"] < 1e-4
        assert found["instrument/entropy_abs"] < 1e-4
        assert found["instrument/mask_frac"] == 0
    assert "instrument/logprob_abs" not in numbers(watched[0], clip=0.2)
    assert torch.equal(weights, train(replace(tiny, lr=5e-3), 4)[1])


def test_a_mask_that_the_tokens_contradict_is_found(tiny):
    """A batch whose mask begins a token late disagrees with the grammar of the environment's turns."""
    trainer = Trainer(tiny, warm_start(tiny))
    training, _ = trainer.sample()
    batch = prepare(trainer.model, training, tiny, generator=trainer.generator)
    shifted = replace(batch, mask=batch.mask.roll(1, dims=1))
    right, wrong = (
        instrument_signals(recompute_batch(RecomputationProbe(1), trainer.model, each, trainer.environment))
        for each in (batch, shifted)
    )
    assert right["instrument/mask_frac"] == 0
    assert wrong["instrument/mask_frac"] > 0.05
    assert wrong["instrument/logprob_abs"] > 0.05


def instrument_signals(recomputed):
    """Return the signals of a comparison."""
    (scores,) = recomputed
    gaps = instrument.compute(scores)
    parts = fetch(scores.library, [*gaps.values()])
    return {name: summary.value() for name, summary in finish_summaries(zip(gaps, parts, strict=True)).items()}
