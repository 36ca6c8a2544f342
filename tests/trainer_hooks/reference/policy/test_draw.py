"""Drawing tokens from logits."""

import pytest
import torch

from trainer_hooks.reference.policy.draw import draw


def test_tokens_are_drawn_with_their_probabilities():
    """Frequencies of 20,000 draws match the softmax within five standard errors; what is impossible never comes."""
    logits = torch.tensor([2.0, 0.5, -torch.inf, 1.0, -3.0]).repeat(20000, 1)
    expected = (logits[0] / 1.3).softmax(dim=0)
    drawn = draw(logits, torch.Generator().manual_seed(0), 1.3)
    counted = torch.bincount(drawn, minlength=5) / 20000
    assert counted[2] == 0
    assert ((counted - expected).abs() <= 5 * (expected * (1 - expected) / 20000).sqrt()).all()


def test_logits_that_are_no_numbers_are_said_so():
    """One NaN row among good ones ends sampling with a message."""
    logits = torch.zeros(3, 5)
    logits[1, 2] = torch.nan
    with pytest.raises(FloatingPointError, match="must be finite, got NaN"):
        draw(logits, torch.Generator().manual_seed(0), 1.0)
