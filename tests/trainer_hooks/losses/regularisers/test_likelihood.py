"""The control for LLDS: plain likelihood of the preserving set."""

import math

import pytest
import torch

from trainer_hooks.losses import likelihood_loss


def test_hand_worked_loss():
    """Tokens of responses with A ≥ 0 count, feedback and wrong responses do not: (1 + 2 + 3) / 3."""
    logprobs = torch.tensor([[-1.0, math.nan, -2.0], [-3.0, 0.0, 0.0], [-9.0, -9.0, -9.0]], requires_grad=True)
    mask = torch.tensor([[True, False, True], [True, False, False], [True, True, True]])
    loss = likelihood_loss(logprobs, mask, torch.tensor([1.0, 0.0, -1.0]))
    loss.backward()
    assert loss.item() == pytest.approx(2.0)
    assert torch.allclose(logprobs.grad, torch.where(mask & torch.tensor([[True], [True], [False]]), -1 / 3, 0.0))


def test_it_pulls_at_the_old_policy_too():
    """The term has a gradient where no likelihood has fallen, unlike LLDS, so it can serve as a control."""
    logprobs = torch.full((1, 2), -1.0, dtype=torch.float64, requires_grad=True)
    every = torch.ones(1, 2, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda x: likelihood_loss(x, every, torch.zeros(1)), (logprobs,))
    (gradient,) = torch.autograd.grad(likelihood_loss(logprobs, every, torch.zeros(1)), logprobs)
    assert torch.equal(gradient, torch.full((1, 2), -0.5, dtype=torch.float64))


def test_an_empty_preserving_set_gives_zero():
    """With wrong responses only, the term is 0, not 0/0."""
    assert likelihood_loss(-torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool), -torch.ones(1)).item() == 0
