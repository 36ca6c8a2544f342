"""Drawing tokens from logits."""

import pytest
import torch

from trainer_hooks.reference.policy.token_sampling import draw, sampler_logits, sampler_logprobs


def test_tokens_are_drawn_with_their_probabilities():
    """Frequencies of 20,000 draws match the softmax within five standard errors; impossible tokens never come."""
    logits = torch.tensor([2.0, 0.5, -torch.inf, 1.0, -3.0]).repeat(20000, 1)
    expected = (logits[0] / 1.3).softmax(dim=0)
    drawn = draw(logits, torch.Generator().manual_seed(0), 1.3)
    counted = torch.bincount(drawn, minlength=5) / 20000
    assert counted[2] == 0
    assert ((counted - expected).abs() <= 5 * (expected * (1 - expected) / 20000).sqrt()).all()


def test_logits_that_are_no_numbers_are_reported():
    """One NaN row among good ones ends sampling with a message."""
    logits = torch.zeros(3, 5)
    logits[1, 2] = torch.nan
    with pytest.raises(FloatingPointError, match="must be finite, got NaN"):
        draw(logits, torch.Generator().manual_seed(0), 1.0)


def test_top_p_draws_from_the_smallest_set_that_reaches_its_mass():
    """Of 0.5, 0.3, 0.15 and 0.05 a mass of 0.6 keeps two tokens, one of 0.5 keeps one, and 1 keeps all."""
    logits = torch.tensor([[0.15, 0.5, 0.05, 0.3]]).log()
    for top_p, kept in ((0.5, {1}), (0.6, {1, 3}), (0.9, {0, 1, 3}), (1.0, {0, 1, 2, 3})):
        found = sampler_logits(logits, 1.0, top_p)
        assert {token for token in range(4) if found[0, token].isfinite()} == kept
        generator = torch.Generator().manual_seed(0)
        drawn = {int(draw(logits, generator, 1.0, top_p)) for _ in range(200)}
        assert drawn == kept


def test_the_probability_of_a_draw_is_that_of_the_sampler():
    """At temperature 2 and top-p 0.8 it is the log-probability in the renormalised, softened distribution."""
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    softened = torch.tensor([0.5, 0.3, 0.15, 0.05]).sqrt()
    softened = softened / softened.sum()
    kept = softened[:3] / softened[:3].sum()
    for token in range(3):
        found = sampler_logprobs(logits, torch.tensor([token]), 2.0, 0.8)
        assert found.item() == pytest.approx(kept[token].log().item(), abs=1e-6)
