"""KL-Cov against the definition written as loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_hooks.losses import grpo_loss, kl_cov_penalty, token_covariances


def batch(seed, *, responses=4, length=6):
    """Return log-probabilities, older ones, a mask with gaps and advantages, float64."""
    draw = torch.Generator().manual_seed(seed)
    logprobs = -torch.rand(responses, length, generator=draw, dtype=torch.float64) * 3
    old = logprobs + torch.randn(responses, length, generator=draw, dtype=torch.float64) * 0.1
    mask = torch.rand(responses, length, generator=draw) < 0.7
    mask[:, 0] = True
    return logprobs, old, mask, torch.randn(responses, generator=draw, dtype=torch.float64)


def covariances(logprobs, mask, advantages):
    """The terms of the covariance by place, with plain numbers."""
    places = [tuple(place) for place in mask.nonzero().tolist()]
    mean = sum(logprobs[place].item() for place in places) / len(places)
    weight = sum(advantages[row].item() for row, _ in places) / len(places)
    return {(r, c): (logprobs[r, c].item() - mean) * (advantages[r].item() - weight) for r, c in places}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), share=st.sampled_from([0.01, 0.2, 0.5, 1.0]))
def test_the_penalty_is_that_of_the_tokens_with_the_largest_covariance(seed, share):
    """Sort the terms, take the first, sum |ln ratio| over them: the same number and the same gradient."""
    logprobs, old, mask, advantages = batch(seed)
    logprobs.requires_grad_()
    terms = covariances(logprobs, mask, advantages)
    count = max(1, int(share * len(terms)))
    chosen = sorted(terms, key=terms.get, reverse=True)[:count]
    loss = kl_cov_penalty(logprobs, old, mask, advantages, share=share)
    assert loss.item() == pytest.approx(sum(abs(logprobs[p] - old[p]).item() for p in chosen) / len(terms))
    (gradient,) = torch.autograd.grad(loss, logprobs)
    expected = torch.zeros_like(gradient)
    for place in chosen:
        expected[place] = math.copysign(1 / len(terms), (logprobs[place] - old[place]).item())
    assert torch.allclose(gradient, expected)


def test_covariances_of_tokens_add_up_to_that_of_numpy():
    """Their mean is the population covariance of ln π and the advantage; outside the mask they are 0."""
    logprobs, _, mask, advantages = batch(3)
    weights = advantages[:, None].expand(mask.shape)
    found = token_covariances(logprobs, advantages, mask)
    expected = torch.cov(torch.stack((logprobs[mask], weights[mask])), correction=0)[0, 1]
    assert (found.sum() / mask.sum()).item() == pytest.approx(expected.item())
    assert not found[~mask].any()


def test_at_the_old_policy_the_penalty_and_its_gradient_are_zero():
    """The first update on a rollout batch is the plain objective's, as with LLDS."""
    logprobs, _, mask, advantages = batch(5)
    logprobs.requires_grad_()
    loss = kl_cov_penalty(logprobs, logprobs.detach(), mask, advantages, share=0.5)
    assert loss.item() == 0.0
    assert not torch.autograd.grad(loss, logprobs)[0].any()


def test_the_objective_without_a_clip_is_that_of_the_paper():
    """With clip_low 1 and clip_high infinite, eq. 1 is −(1/N) Σ γ A: no ratio is clipped."""
    logprobs, old, mask, advantages = batch(7)
    found = grpo_loss(logprobs, old - 2.0, mask, advantages, clip_low=1.0, clip_high=math.inf)
    ratios = (logprobs - old + 2.0).exp() * advantages[:, None]
    assert found.item() == pytest.approx(-(ratios[mask].sum() / mask.sum()).item())


def test_a_share_outside_its_range_and_an_empty_mask():
    """The message names the setting; without a token the penalty is 0."""
    logprobs, old, mask, advantages = batch(9)
    with pytest.raises(ValueError, match=r"share must be in \(0, 1\], got 0"):
        kl_cov_penalty(logprobs, old, mask, advantages, share=0)
    assert kl_cov_penalty(logprobs, old, torch.zeros_like(mask), advantages).item() == 0.0
