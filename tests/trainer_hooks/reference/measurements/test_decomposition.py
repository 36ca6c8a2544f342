"""The decomposition of updates: its parts add up, it changes nothing, and to first order it is exact."""

from dataclasses import replace

import pytest
import torch

from trainer_hooks.reference.measurements.decomposition import MOMENTUM_PARTS, PARTS, SCALING_PARTS, Decomposition
from trainer_hooks.reference.measurements.held_out_changes import HeldOut
from trainer_hooks.reference.measurements.held_out_decomposition import HELD_OUT_PARTS
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.run.trainer import Trainer
from trainer_hooks.reference.updates.batch import prepare


def prepared(config, *, steps=2):
    """A trainer after some steps, and a fresh batch with a mixed group."""
    trainer = Trainer(config, warm_start(config))
    for _ in range(steps):
        trainer.step()
    for _ in range(40):
        training, _ = trainer.sample()
        batch = prepare(trainer.model, training, config, generator=trainer.generator)
        if batch.advantages.any():
            return trainer, batch
    pytest.fail("forty batches gave no mixed group")


def decompose(trainer, batch, held_out=None):
    """The decomposition after one update on each minibatch."""
    decomposition = Decomposition(trainer.learner, batch, held_out)
    for part in batch.minibatches:
        decomposition.update(part)
    return decomposition


@pytest.mark.parametrize(
    "changed", [{}, {"method": "llds", "lambda_": 1.0}, {"kl": 0.1}, {"max_grad_norm": 0.0}, {"method": "acpo"}]
)
def test_to_first_order_the_parts_are_the_measured_change(tiny, changed):
    """At a small rate the remainder is under a fiftieth of the change, for any other terms of the loss."""
    trainer, batch = prepared(replace(tiny, lr=1e-3, **changed))
    trainer.learner.optimiser.param_groups[0]["lr"] = 3e-5
    found = decompose(trainer, batch).by_response()
    first_order = sum(found[part] for part in PARTS if part != "remainder")
    assert torch.allclose(first_order + found["remainder"], found["measured"], atol=1e-6)
    assert found["remainder"].abs().mean() < 0.02 * found["measured"].abs().mean()
    assert all(found[part].abs().sum() > 0 for part in ("own", "negatives", "momentum", "scaling"))


def test_a_first_update_has_no_momentum_and_one_group_no_others(tiny):
    """With empty moments and one group in the batch only the gradients of this group and their scaling act."""
    trainer, batch = prepared(replace(tiny, questions_per_step=1, minibatches=1, lr=1e-3), steps=0)
    found = decompose(trainer, batch).by_response()
    for part in ("momentum", "others"):
        assert not found[part].any()
    assert found["regularisers"].abs().max() < 1e-6


def test_each_response_is_lifted_by_its_own_gradient_and_negatives_are_apart(tiny):
    """Under one common scale the gradient of the correct responses raises their mean likelihood: ‖ḡ⁺‖² ≥ 0."""
    trainer, batch = prepared(replace(tiny, questions_per_step=1, minibatches=1, lr=1e-3), steps=0)
    assert decompose(trainer, batch).by_response()["own"].mean() > 0


def test_correct_responses_are_those_with_a_reward_whatever_their_advantages(tiny):
    """A critic that expects too much turns all gradients around: so does each part, with the responses that it has."""
    trainer, batch = prepared(replace(tiny, questions_per_step=1, minibatches=1, lr=1e-3), steps=0)
    found = decompose(trainer, batch).by_response()
    trainer, batch = prepared(replace(tiny, questions_per_step=1, minibatches=1, lr=1e-3), steps=0)
    turned = decompose(trainer, replace(batch, advantages=-batch.advantages)).by_response()
    for part in ("own", "negatives"):
        assert torch.allclose(turned[part], -found[part], rtol=1e-3, atol=1e-6)


def test_the_updates_are_those_of_the_learner_to_the_last_bit(tiny):
    """A decomposed run is the run without it; its signals are in the step."""
    plain, split = (Trainer(replace(tiny, decompose_every=every), warm_start(tiny)) for every in (0, 1))
    results = [(plain.step(), split.step()) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(plain.model.parameters(), split.model.parameters(), strict=True))
    names = {"decomposition/measured", *(f"decomposition/{part}" for part in (*PARTS, *MOMENTUM_PARTS, *SCALING_PARTS))}
    assert any(names <= result.scalars.keys() for _, result in results)
    for _, result in results:
        if "decomposition/measured" in result.scalars:
            total = sum(result.scalars[f"decomposition/{part}"] for part in PARTS)
            assert total == pytest.approx(result.scalars["decomposition/measured"], abs=1e-4)
            carried = sum(result.scalars[f"decomposition/{part}"] for part in MOMENTUM_PARTS)
            assert carried == pytest.approx(result.scalars["decomposition/momentum"], abs=1e-4)
            scaled = sum(result.scalars[f"decomposition/{part}"] for part in SCALING_PARTS)
            assert scaled == pytest.approx(result.scalars["decomposition/scaling"], abs=1e-4)


def test_a_batch_without_a_mixed_group_has_no_parts(tiny):
    """Where all rewards are equal nothing is decomposed, and the updates are made as usual."""
    trainer, batch = prepared(tiny)
    equal = replace(batch, rewards=torch.ones_like(batch.rewards))
    decomposition = Decomposition(trainer.learner, equal)
    assert "grad/norm" in decomposition.update(equal.minibatches[0])
    assert decomposition.signals() == {}


def flat(parts):
    """Tensors as one vector."""
    return torch.cat([part.flatten() for part in parts])


def policy_gradient(trainer, batch, part, rows):
    """The gradient of eq. 1 of some rows of a minibatch, written as a loop over its tokens."""
    logprobs = token_statistics(trainer.model, batch.tokens[part.rows], batch.mask[part.rows])[0]
    total = 0.0 * logprobs.sum()
    for at, row in enumerate(part.rows.tolist()):
        if row in rows:
            for column in batch.mask[row].nonzero()[:, 0].tolist():
                ratio = (logprobs[at, column] - batch.old_logprobs[row, column]).exp()
                advantage = batch.advantages[row]
                total = total - torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage) / part.tokens
    return flat(torch.autograd.grad(total, list(trainer.model.parameters())))


def test_momentum_and_scaling_are_split_by_the_gradients_that_made_them(tiny):
    """The shares of own, negative and other gradients in both equal those of a loop over responses."""
    trainer, batch = prepared(replace(tiny, lr=2e-3, kl=0.1, max_grad_norm=0.0), steps=1)
    model, adamw = trainer.model, trainer.learner.optimiser
    rate, (first, second) = adamw.param_groups[0]["lr"], adamw.param_groups[0]["betas"]
    decomposition = Decomposition(trainer.learner, batch)
    groups, right = batch.group_ids.tolist(), (batch.rewards > 0).tolist()
    wrong = {group for group, is_right in zip(groups, right, strict=True) if not is_right}
    kept = [row for row, group in enumerate(groups) if right[row] and group in wrong]
    expected = {name: torch.zeros(len(kept)) for name in (*MOMENTUM_PARTS, *SCALING_PARTS)}
    carried = {(group, sign): 0.0 for group in set(groups) for sign in (True, False)}
    rest, earlier = 0.0, flat(adamw.state[weight]["exp_avg"] for weight in model.parameters())
    for part in [*batch.minibatches, *batch.minibatches]:
        own_rows = {key: [r for r in part.rows.tolist() if (groups[r], right[r]) == key] for key in carried}
        gradients = {key: policy_gradient(trainer, batch, part, rows) for key, rows in own_rows.items()}
        slopes = []
        for row in kept:
            score = token_statistics(model, batch.tokens[[row]], batch.mask[[row]])[0].sum()
            slopes.append(flat(torch.autograd.grad(score, list(model.parameters()))))
        decomposition.update(part)
        count = adamw.state[next(model.parameters())]["step"].item()
        variance = flat(adamw.state[weight]["exp_avg_sq"] for weight in model.parameters())
        scale = rate / (1 - first**count) / ((variance / (1 - second**count)).sqrt() + 1e-8)
        taken = flat(weight.grad for weight in model.parameters())
        mean_scale = (scale * taken).norm() / taken.norm()
        for at, row in enumerate(kept):

            def moved(moment, slope=slopes[at], scale=scale):
                return (slope * -scale * first * moment).sum() if torch.is_tensor(moment) else torch.tensor(0.0)

            own, bad = carried[groups[row], True], carried[groups[row], False]
            everything = sum(carried.values())
            expected["momentum_own"][at] += moved(own)
            expected["momentum_negatives"][at] += moved(bad)
            expected["momentum_others"][at] += moved(everything) - moved(own) - moved(bad)
            expected["momentum_regularisers"][at] += moved(rest)
            expected["momentum_earlier"][at] += moved(earlier)
            apart = slopes[at] * -(scale - mean_scale) * (1 - first)
            policy = sum(gradients.values())
            positive, negative = (gradients[groups[row], sign] for sign in (True, False))
            expected["scaling_own"][at] += (apart * positive).sum()
            expected["scaling_negatives"][at] += (apart * negative).sum()
            expected["scaling_others"][at] += (apart * (policy - positive - negative)).sum()
            expected["scaling_regularisers"][at] += (apart * (taken - policy)).sum()
        carried = {key: first * held + (1 - first) * gradients[key] for key, held in carried.items()}
        rest = first * rest + (1 - first) * (taken - sum(gradients.values()))
        earlier = first * earlier
    found = decomposition.by_response()
    for name, change in expected.items():
        assert torch.allclose(found[name], change, atol=1e-5, rtol=1e-3), name
    assert found["momentum_own"].abs().sum() > 0
    assert found["momentum_others"].abs().sum() > 0


def with_held_out(trainer):
    """Held-out responses with a correct one, scored by the policy as it is."""
    for _ in range(40):
        _, held_out = trainer.sample()
        found = HeldOut.before(trainer.model, held_out)
        if found.correct.any():
            return found
    pytest.fail("forty samples had no correct held-out response")


@pytest.mark.parametrize("changed", [{}, {"method": "llds", "lambda_": 1.0}, {"kl": 0.1, "weight_decay": 0.1}])
def test_to_first_order_the_parts_of_held_out_responses_are_their_measured_change(tiny, changed):
    """At a small rate the remainder is under a fiftieth of the parts, and every part acts."""
    trainer, batch = prepared(replace(tiny, lr=1e-3, held_out=8, **changed))
    trainer.learner.optimiser.param_groups[0]["lr"] = 3e-5
    signals = decompose(trainer, batch, with_held_out(trainer)).signals()
    found = {name: signals[f"decomposition/held_out_{name}"] for name in ("measured", *HELD_OUT_PARTS)}
    assert sum(found[name] for name in HELD_OUT_PARTS) == pytest.approx(found["measured"], abs=1e-6)
    sizes = [abs(found[name]) for name in ("positives", "negatives", "earlier")]
    assert min(sizes) > 0
    assert abs(found["remainder"]) < 0.02 * sum(sizes)


def test_the_parts_of_held_out_responses_are_those_of_a_loop_over_responses(tiny):
    """Two passes over the minibatches: each gradient acts at once, and through the momentum of the later updates."""
    trainer, batch = prepared(replace(tiny, lr=2e-3, kl=0.1, max_grad_norm=0.0, held_out=8), steps=1)
    model, adamw = trainer.model, trainer.learner.optimiser
    held_out = with_held_out(trainer)
    rate, (first, second) = adamw.param_groups[0]["lr"], adamw.param_groups[0]["betas"]
    decomposition = Decomposition(trainer.learner, batch, held_out)
    advantages = batch.response_advantages
    moments = {"positives": 0.0, "negatives": 0.0, "regularisers": 0.0}
    moments["earlier"] = flat(adamw.state[weight]["exp_avg"] for weight in model.parameters())
    expected = dict.fromkeys(moments, 0.0)
    for part in [*batch.minibatches, *batch.minibatches]:
        signs = {"positives": advantages > 0, "negatives": advantages <= 0}
        given = {
            name: policy_gradient(trainer, batch, part, [row for row in part.rows.tolist() if of_sign[row]])
            for name, of_sign in signs.items()
        }
        tokens, mask = held_out.tokens[held_out.correct], held_out.mask[held_out.correct]
        score = token_statistics(model, tokens, mask)[0].sum(dim=1).mean()
        slope = flat(torch.autograd.grad(score, list(model.parameters())))
        decomposition.update(part)
        count = adamw.state[next(model.parameters())]["step"].item()
        variance = flat(adamw.state[weight]["exp_avg_sq"] for weight in model.parameters())
        scale = rate / (1 - first**count) / ((variance / (1 - second**count)).sqrt() + 1e-8)
        given["regularisers"] = flat(weight.grad for weight in model.parameters()) - sum(given.values())
        for name, moment in moments.items():
            moments[name] = first * moment + (1 - first) * given.get(name, 0.0)
            expected[name] += (slope * -scale * moments[name]).sum().item()
    signals = decomposition.signals()
    for name, change in expected.items():
        assert signals[f"decomposition/held_out_{name}"] == pytest.approx(change, rel=2e-3, abs=1e-5), name


def test_held_out_responses_that_are_all_wrong_have_no_parts(tiny):
    """Nothing is averaged over no response."""
    trainer, batch = prepared(replace(tiny, held_out=8))
    held_out = with_held_out(trainer)
    wrong = replace(held_out, correct=torch.zeros_like(held_out.correct))
    decomposition = Decomposition(trainer.learner, batch, wrong)
    decomposition.update(batch.minibatches[0])
    assert not [name for name in decomposition.signals() if "held_out" in name]
