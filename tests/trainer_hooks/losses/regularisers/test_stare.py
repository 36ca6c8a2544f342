"""STARE's factors against sorted lists."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_hooks.losses import stare_scales


def batch(seed, *, responses=5, length=6):
    """Return log-probabilities, a mask with gaps and advantages of both signs and 0."""
    draw = torch.Generator().manual_seed(seed)
    logprobs = -torch.rand(responses, length, generator=draw) * 3
    mask = torch.rand(responses, length, generator=draw) < 0.7
    mask[:, 0] = True
    advantages = torch.randn(responses, generator=draw)
    advantages[:3] = torch.tensor([1.0, -1.0, 0.0])
    return logprobs, mask, advantages


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), share=st.sampled_from([0.1, 0.3, 1.0]))
def test_the_most_surprising_tokens_of_each_sign_get_the_factors(seed, share):
    """Sort the tokens with A > 0 and those with A < 0 by ln π, and take the first of each."""
    logprobs, mask, advantages = batch(seed)
    expected = torch.ones(mask.shape)
    for sign, factor in ((1, 1.1), (-1, 0.9)):
        places = [tuple(place) for place in mask.nonzero().tolist() if advantages[place[0]] * sign > 0]
        for place in sorted(places, key=lambda place: logprobs[place].item())[: max(1, int(share * len(places)))]:
            expected[place] = factor
    found = stare_scales(logprobs, mask, advantages, 0.1, share=share, lowered=0.9)
    assert torch.equal(found, expected)
    one_sided = stare_scales(logprobs, mask, advantages, 0.1, share=share)
    assert torch.equal(one_sided, torch.where(expected == 0.9, 1.0, expected))


def test_at_the_target_entropy_nothing_is_changed():
    """From the target on all factors are 1, so the objective is plain GRPO; just below it they act."""
    logprobs, mask, advantages = batch(1)
    assert (stare_scales(logprobs, mask, advantages, 0.3) == 1).all()
    assert (stare_scales(logprobs, mask, advantages, torch.tensor(0.29)) == 1.1).any()


def test_advantages_of_tokens_are_those_of_their_responses():
    """Advantages of tokens give the factors of advantages of responses where the two agree."""
    logprobs, mask, advantages = batch(2)
    by_token = advantages[:, None].expand(mask.shape).contiguous()
    assert torch.equal(stare_scales(logprobs, mask, by_token, 0.0), stare_scales(logprobs, mask, advantages, 0.0))


def test_log_probabilities_may_lie_in_memory_by_token():
    """The transpose of an array of tokens by responses gives the factors of the array of responses by tokens."""
    logprobs, mask, advantages = batch(2)
    by_token = logprobs.T.contiguous().T
    assert torch.equal(stare_scales(by_token, mask, advantages, 0.0), stare_scales(logprobs, mask, advantages, 0.0))


def test_settings_outside_their_range_are_refused():
    """The messages have the setting and the given value."""
    logprobs, mask, advantages = batch(3)
    with pytest.raises(ValueError, match=r"share must be in \(0, 1\], got 2"):
        stare_scales(logprobs, mask, advantages, 0.1, share=2)
    with pytest.raises(ValueError, match=r"raised must be at least 1 and lowered in \[0, 1\], got 0.5 and 1.0"):
        stare_scales(logprobs, mask, advantages, 0.1, raised=0.5)
