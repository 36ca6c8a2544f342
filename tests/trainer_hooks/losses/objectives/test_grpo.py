"""The GRPO objective and its advantages (eq. 1)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_hooks.losses import group_advantages, grpo_loss


def test_hand_worked_loss():
    """The loss of two responses of opposite advantage, with one ratio clipped in each direction, is as by hand."""
    # Ratios: response 0 (A = 1): 1.5 -> clipped 1.2, 0.5 -> 0.5; response 1 (A = −1): 1.5 -> −1.5 (not clipped,
    # the minimum is the worse one), 0.5 -> −0.8 (clipped). J = (1.2 + 0.5 − 1.5 − 0.8) / 4 = −0.15.
    new = torch.tensor([[1.5, 0.5], [1.5, 0.5]]).log()
    every = torch.ones(2, 2, dtype=torch.bool)
    loss = grpo_loss(new, torch.zeros(2, 2), every, torch.tensor([1.0, -1.0]))
    assert loss.item() == pytest.approx(0.15)


def test_feedback_is_in_no_count():
    """A masked token changes neither the sum nor the normaliser, for any value."""
    new = torch.tensor([[1.1, 7.0, math.nan]]).log()
    mask = torch.tensor([[True, False, False]])
    assert grpo_loss(new, torch.zeros(1, 3), mask, torch.ones(1)).item() == pytest.approx(-1.1)


def test_a_response_without_action_tokens_may_have_any_advantage():
    """A group whose grader failed has advantages of NaN, and a mask leaves it out of the loss and of the gradient."""
    new = torch.tensor([[1.1, 1.0], [1.0, 1.0]]).log().requires_grad_()
    mask, scales = torch.tensor([[True, False], [False, False]]), torch.tensor([[1.0, math.nan], [1.0, 1.0]])
    loss = grpo_loss(new, torch.zeros(2, 2), mask, torch.tensor([1.0, math.nan]), token_scales=scales)
    loss.backward()
    assert loss.item() == pytest.approx(-1.1)
    assert new.grad.tolist() == [[pytest.approx(-1.1), 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("clip", [0.2, torch.full((3, 2), 0.2)])
def test_a_ratio_beyond_the_largest_float_is_clipped_like_any_other(clip):
    """e^90 at A = 1 and A = 0 counts as 1.2 and as 0, without a gradient; at A = −1 no clip holds it."""
    new = torch.tensor([[90.0, 0.0]] * 3, requires_grad=True)
    every, advantages = torch.ones(3, 2, dtype=torch.bool), torch.tensor([1.0, 0.0, -1.0])
    arrays = new, torch.zeros(3, 2), every, advantages
    held = grpo_loss(*arrays[:2], every & (advantages >= 0)[:, None], advantages, clip_low=clip, clip_high=clip)
    held.backward()
    assert held.item() == pytest.approx(-(1.2 + 1.0) / 4)
    assert new.grad.tolist() == [[0.0, -0.25], [0.0, 0.0], [0.0, 0.0]]
    assert grpo_loss(*arrays, clip_low=clip, clip_high=clip).item() == math.inf
    new.grad = None
    grpo_loss(*arrays[:2], every & (advantages == 0)[:, None], advantages, clip_high=math.inf).backward()
    assert not new.grad.any()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_loss_equals_the_equation_written_as_loops(seed):
    """Vectorised and loop-by-loop objectives agree to float64 rounding."""
    draw = torch.Generator().manual_seed(seed)
    new, old = (torch.randn(4, 9, generator=draw, dtype=torch.float64) for _ in range(2))
    mask = torch.rand(4, 9, generator=draw) < 0.6
    advantages = torch.randn(4, generator=draw, dtype=torch.float64)
    total, count = 0.0, 0
    for i in range(4):
        for k in range(9):
            if mask[i, k]:
                ratio, a = math.exp(new[i, k] - old[i, k]), float(advantages[i])
                total += min(ratio * a, min(max(ratio, 0.8), 1.3) * a)
                count += 1
    expected = -total / count if count else 0.0
    loss = grpo_loss(new, old, mask, advantages, clip_low=0.2, clip_high=0.3)
    assert loss.item() == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_gradients_match_finite_differences():
    """The gradient is that of the equation, away from the kinks; with factors and with an advantage a token too."""
    draw = torch.Generator().manual_seed(1)
    new = torch.randn(3, 5, generator=draw, dtype=torch.float64, requires_grad=True)
    old, by_token = (torch.randn(3, 5, generator=draw, dtype=torch.float64) for _ in range(2))
    mask = torch.rand(3, 5, generator=draw) < 0.7
    scales = torch.rand(3, 5, generator=draw, dtype=torch.float64)
    advantages = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: grpo_loss(x, old, mask, advantages, token_scales=scales), (new,))
    assert torch.autograd.gradcheck(lambda x: grpo_loss(x, old, mask, by_token), (new,))


def test_an_advantage_of_each_token_is_taken_where_it_stands():
    """Ratios 1.1 at A = 1 and A = −2: J = (1.1 − 2.2) / 2; NaN under the mask's False does not matter."""
    new = torch.tensor([[1.1, 1.1, 1.0]]).log()
    mask = torch.tensor([[True, True, False]])
    loss = grpo_loss(new, torch.zeros(1, 3), mask, torch.tensor([[1.0, -2.0, math.nan]]))
    assert loss.item() == pytest.approx(0.55)
    with pytest.raises(ValueError, match=r"advantages must have shape \(1,\), .* or \(1, 3\), one a token, got \(3,\)"):
        grpo_loss(new, torch.zeros(1, 3), mask, torch.ones(3))


def test_bfloat16_is_lifted_before_the_difference():
    """Half-precision log-probabilities give the float32 result of the same numbers, and a gradient in bfloat16."""
    draw = torch.Generator().manual_seed(3)
    old = -torch.rand(4, 6, generator=draw)
    new = (old + 0.1 * torch.randn(4, 6, generator=draw)).bfloat16().requires_grad_()
    every, advantages = torch.ones(4, 6, dtype=torch.bool), torch.randn(4, generator=draw)
    loss = grpo_loss(new, old.bfloat16(), every, advantages)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == grpo_loss(new.float(), old.bfloat16().float(), every, advantages).item()
    assert new.grad.dtype == torch.bfloat16


def test_minibatches_of_a_shared_normaliser_add_up():
    """With one N for all, the losses of the parts sum to the loss of the whole."""
    draw = torch.Generator().manual_seed(2)
    new, old = (torch.randn(6, 5, generator=draw, dtype=torch.float64) for _ in range(2))
    mask = torch.rand(6, 5, generator=draw) < 0.7
    advantages = torch.randn(6, generator=draw, dtype=torch.float64)
    parts = [
        grpo_loss(new[rows], old[rows], mask[rows], advantages[rows], normaliser=mask.sum())
        for rows in (slice(0, 2), slice(2, 6))
    ]
    assert sum(parts).item() == pytest.approx(grpo_loss(new, old, mask, advantages).item(), rel=1e-12)


def test_token_scales_soften_the_advantage_where_they_stand():
    """Ratios 1.1 at A = −1, the second token at a tenth: J = −(1.1 + 0.11) / 2."""
    new = torch.tensor([[1.1, 1.1]]).log()
    every = torch.ones(1, 2, dtype=torch.bool)
    scales = torch.tensor([[1.0, 0.1]])
    loss = grpo_loss(new, torch.zeros(1, 2), every, -torch.ones(1), token_scales=scales)
    assert loss.item() == pytest.approx(1.21 / 2)


def test_no_action_token_gives_zero():
    """A batch without action tokens has a loss of 0, not 0/0."""
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    assert grpo_loss(torch.zeros(2, 3), torch.zeros(2, 3), nothing, torch.ones(2)).item() == 0


def test_advantages_are_standardised_by_group():
    """Each group is shifted by its own mean and scaled by its own population standard deviation."""
    rewards = torch.tensor([1.0, 5.0, 0.0, 5.0, 0.0, 0.0])
    groups = torch.tensor([0, 1, 0, 1, 0, 0])
    # Group 0: mean 1/4, std √(1/4·3/4) = √3/4; 1 -> (3/4)/(√3/4) = √3, 0 -> −1/√3. Group 1 is all equal.
    expected = torch.tensor([math.sqrt(3), 0.0, -1 / math.sqrt(3), 0.0, -1 / math.sqrt(3), -1 / math.sqrt(3)])
    assert torch.allclose(group_advantages(rewards, groups), expected)
    # The release divides by the unbiased one, √(4/3) times as large in the group of four; a group of one stays at 0.
    unbiased = group_advantages(torch.cat((rewards, rewards[:1])), torch.cat((groups, groups[:1] + 2)), unbiased=True)
    assert torch.allclose(unbiased, torch.cat((expected * math.sqrt(3 / 4), torch.zeros(1))))


@settings(max_examples=60, deadline=None)
@given(reward=st.floats(-1e6, 1e6, width=32), size=st.integers(1, 9))
def test_equal_rewards_and_groups_of_one_have_advantage_zero_exactly(reward, size):
    """Rounding of the mean must not turn a group without signal into advantages of ±1."""
    advantages = group_advantages(torch.full((size,), reward), torch.zeros(size, dtype=torch.long))
    assert torch.equal(advantages, torch.zeros(size))


def test_rewards_may_be_whole_numbers_or_half_precision():
    """Rewards of 0 and 1, as integers or in bfloat16, give the float32 advantages ∓1."""
    groups = torch.zeros(2, dtype=torch.long)
    for dtype in (torch.int64, torch.bfloat16):
        assert torch.equal(group_advantages(torch.tensor([0, 1], dtype=dtype), groups), torch.tensor([-1.0, 1.0]))


def test_a_reward_that_is_not_finite_is_seen_in_its_group_and_nowhere_else():
    """A reward of NaN makes the advantages of its group NaN, not 0, and changes no other group."""
    advantages = group_advantages(torch.tensor([0.0, math.nan, 0.0, 1.0]), torch.tensor([0, 0, 1, 1]))
    assert advantages[:2].isnan().all()
    assert torch.equal(advantages[2:], torch.tensor([-1.0, 1.0]))


def test_rewards_and_groups_must_match():
    """The message has both shapes."""
    with pytest.raises(ValueError, match=r"got \(3,\) and \(2,\)"):
        group_advantages(torch.zeros(3), torch.zeros(2, dtype=torch.long))
