"""Generalised advantages and the value's loss against loops that follow the equations token by token."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_hooks.losses import generalised_advantages, grpo_loss, value_loss


def test_hand_worked_advantages():
    """The advantages of three action tokens around feedback, at reward 1, γ = 0.9 and λ = 0.5, are as by hand."""
    values = torch.tensor([[0.2, 7.0, 0.4, 0.5]])
    mask = torch.tensor([[True, False, True, True]])
    # δ_3 = 1 − 0.5 = 0.5; δ_2 = 0.9·0.5 − 0.4 = 0.05; δ_1 = 0.9·0.4 − 0.2 = 0.16.
    # Â_3 = 0.5; Â_2 = 0.05 + 0.45·0.5 = 0.275; Â_1 = 0.16 + 0.45·0.275 = 0.28375.
    advantages, returns = generalised_advantages(torch.ones(1), values, mask, discount=0.9, gae_lambda=0.5)
    assert torch.allclose(advantages, torch.tensor([[0.28375, 0.0, 0.275, 0.5]]))
    assert torch.allclose(returns, torch.tensor([[0.48375, 0.0, 0.675, 1.0]]))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), discount=st.floats(0, 1), gae_lambda=st.floats(0, 1))
def test_advantages_equal_the_sum_over_later_surprises(seed, discount, gae_lambda):
    """The recursion and the double sum of the definition agree to float64 rounding; feedback is in neither."""
    draw = torch.Generator().manual_seed(seed)
    rewards = torch.randn(3, generator=draw, dtype=torch.float64)
    values = torch.randn(3, 8, generator=draw, dtype=torch.float64)
    mask = torch.rand(3, 8, generator=draw) < 0.6
    spoiled = torch.where(mask, values, math.nan)
    advantages, returns = generalised_advantages(rewards, spoiled, mask, discount=discount, gae_lambda=gae_lambda)
    for i in range(3):
        places = mask[i].nonzero()[:, 0].tolist()
        v = [float(values[i, place]) for place in places] + [0.0]
        paid = [0.0] * (len(places) - 1) + [float(rewards[i])]
        surprises = [paid[k] + discount * v[k + 1] - v[k] for k in range(len(places))]
        for k, place in enumerate(places):
            expected = sum((discount * gae_lambda) ** step * surprises[k + step] for step in range(len(places) - k))
            assert advantages[i, place].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert returns[i, place].item() == pytest.approx(expected + v[k], rel=1e-9, abs=1e-12)
    assert not advantages[~mask].any()


def test_a_response_without_action_tokens_has_no_advantage():
    """A response without action tokens has advantages of 0."""
    advantages, returns = generalised_advantages(torch.ones(1), torch.ones(1, 3), torch.zeros(1, 3, dtype=torch.bool))
    assert not advantages.any()
    assert not returns.any()


def test_hand_worked_value_loss():
    """The larger of the clipped and the unclipped error counts, and only at action tokens."""
    # Token 0: V = 1, V_old = 0, R̂ = 1, ε = 0.2: free (0)², clipped (0.2 − 1)² = 0.64. Token 1: V = V_old = 0.5,
    # R̂ = 0: 0.25. L = (0.64 + 0.25) / (2·2).
    values, old = torch.tensor([[1.0, 0.5, 9.0]]), torch.tensor([[0.0, 0.5, 0.0]])
    mask = torch.tensor([[True, True, False]])
    assert value_loss(values, old, torch.tensor([[1.0, 0.0, 0.0]]), mask).item() == pytest.approx(0.89 / 4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_value_loss_equals_the_equation_written_as_loops(seed):
    """Vectorised and loop-by-loop losses agree to float64 rounding."""
    draw = torch.Generator().manual_seed(seed)
    new, old, returns = (torch.randn(3, 6, generator=draw, dtype=torch.float64) for _ in range(3))
    mask = torch.rand(3, 6, generator=draw) < 0.5
    terms = []
    for i, k in mask.nonzero().tolist():
        v, before, target = float(new[i, k]), float(old[i, k]), float(returns[i, k])
        held = before + min(max(v - before, -0.3), 0.3)
        terms.append(max((v - target) ** 2, (held - target) ** 2) / 2)
    expected = sum(terms) / max(1, len(terms))
    assert value_loss(new, old, returns, mask, clip=0.3).item() == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_gradients_match_finite_differences():
    """The gradient is that of the equation, away from the kinks; none flows into old values."""
    draw = torch.Generator().manual_seed(1)
    new, old, returns = (torch.randn(3, 5, generator=draw, dtype=torch.float64) for _ in range(3))
    mask = torch.rand(3, 5, generator=draw) < 0.7
    new.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: value_loss(x, old, returns, mask), (new,))


def test_with_values_of_zero_every_token_has_the_reward_as_advantage():
    """With values of 0, γ = 1 and λ = 1 each token's advantage is the reward, and `grpo_loss` accepts it."""
    mask = torch.tensor([[True, False, True]])
    advantages, _ = generalised_advantages(torch.tensor([2.0]), torch.zeros(1, 3), mask)
    assert torch.equal(advantages, torch.tensor([[2.0, 0.0, 2.0]]))
    assert grpo_loss(torch.zeros(1, 3), torch.zeros(1, 3), mask, advantages).item() == -2.0


def test_shapes_that_do_not_belong_together_are_named():
    """The message says which array is wrong."""
    with pytest.raises(ValueError, match=r"rewards must have shape \(2,\), one a response, got \(3,\)"):
        generalised_advantages(torch.zeros(3), torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"mask must have the shape of values \(2, 3\), got \(2, 4\)"):
        generalised_advantages(torch.zeros(2), torch.zeros(2, 3), torch.ones(2, 4, dtype=torch.bool))


def test_what_a_critic_gives_outside_the_mask_moves_nothing():
    """NaN at padding: the loss and its gradient are those of the action tokens."""
    values = torch.tensor([[0.5, torch.nan]], requires_grad=True)
    loss = value_loss(values, values.detach(), torch.zeros(1, 2), torch.tensor([[True, False]]))
    loss.backward()
    assert loss.item() == 0.125
    assert values.grad.tolist() == [[0.5, 0.0]]
