"""ACPO's clip ranges against a loop over bins."""

import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_hooks.losses import acpo_clip, grpo_loss


def batch(seed, *, responses=6, length=8):
    """Return log-probabilities, older ones and a mask with gaps."""
    draw = torch.Generator().manual_seed(seed)
    logprobs = torch.rand(responses, length, generator=draw, dtype=torch.float64).log()
    old = logprobs + torch.randn(responses, length, generator=draw, dtype=torch.float64) * 0.2
    return logprobs, old, torch.rand(responses, length, generator=draw) < 0.8


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), bins=st.sampled_from([1, 2, 5]), alpha=st.sampled_from([0.0, 1.0, 3.0]))
def test_the_range_of_a_bin_grows_with_the_spread_of_its_ratios(seed, bins, alpha):
    """Put the tokens into bins one by one, and take the standard deviation of each with the standard library."""
    logprobs, old, mask = batch(seed)
    by_bin = {}
    for row, column in mask.nonzero().tolist():
        number = min(bins - 1, int(logprobs[row, column].exp().item() * bins))
        by_bin.setdefault(number, []).append((row, column))
    expected = torch.full(mask.shape, 0.2, dtype=torch.float64)
    for places in by_bin.values():
        spread = statistics.pstdev((logprobs[place] - old[place]).exp().item() for place in places)
        for place in places:
            expected[place] = min(0.2 + alpha * spread, 0.7)
    assert torch.allclose(acpo_clip(logprobs, old, mask, alpha=alpha, bins=bins, highest=0.7), expected)


def test_at_the_old_policy_it_is_the_plain_clip():
    """Ratios of 1 have no spread: every range is the base, and the objective has one ε."""
    logprobs, _, mask = batch(1)
    ranges = acpo_clip(logprobs, logprobs, mask)
    assert torch.allclose(ranges, torch.full_like(ranges, 0.2))
    advantages = torch.linspace(-1, 1, len(mask), dtype=torch.float64)
    plain = grpo_loss(logprobs, logprobs, mask, advantages)
    assert grpo_loss(logprobs, logprobs, mask, advantages, clip_low=ranges, clip_high=ranges) == pytest.approx(plain)


def test_a_ratio_beyond_the_largest_float_gives_its_bin_the_largest_range():
    """The ratio e^90 is infinite in float32, and the deviation of its bin would be NaN."""
    logprobs, old = torch.full((1, 3), -0.01), torch.tensor([[-90.01, -0.01, -0.3]])
    assert acpo_clip(logprobs, old, torch.ones(1, 3, dtype=torch.bool)).tolist() == [[3.0, 3.0, 3.0]]


def test_the_objective_clips_each_token_by_its_own_range():
    """A ratio of 1.5 with A = 1 counts as 1.2 under ε = 0.2 and as 1.5 under ε = 0.6: their mean is 1.35."""
    logprobs = torch.tensor([[1.5, 1.5]]).log()
    ranges = torch.tensor([[0.2, 0.6]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    loss = grpo_loss(logprobs, torch.zeros(1, 2), mask, torch.ones(1), clip_low=ranges, clip_high=ranges)
    assert loss.item() == pytest.approx(-1.35)


def test_shapes_and_bins_are_checked():
    """The messages have the condition and the given value."""
    logprobs, old, mask = batch(3)
    with pytest.raises(ValueError, match="logprobs, old_logprobs and mask must have one shape"):
        acpo_clip(logprobs, old[:1], mask)
    with pytest.raises(ValueError, match="bins must be at least 1, got 0"):
        acpo_clip(logprobs, old, mask, bins=0)
