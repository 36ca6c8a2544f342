"""The control for LLDS: plain likelihood on the responses that LLDS protects."""

from dataclasses import replace

import pytest
import torch

from trainer_hooks.reference.placebo import likelihood_placebo
from trainer_hooks.reference.train import Trainer
from trainer_hooks.reference.warm_start import warm_start


def test_it_is_the_mean_surprise_of_the_preserving_set():
    """Responses of advantage 1 and 0 have three action tokens of 1, 2 and 3 nats: (1 + 2 + 3)/3 = 2; −1 is left out."""
    logprobs = torch.tensor([[-1.0, -2.0, -7.0], [-3.0, -7.0, -7.0], [-9.0, -9.0, -9.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, False, False], [True, True, True]])
    loss = likelihood_placebo(logprobs, mask, torch.tensor([1.0, 0.0, -1.0]))
    assert loss.item() == pytest.approx(2.0)
    torch.autograd.backward(loss)
    assert torch.equal(logprobs.grad * -3, (mask & torch.tensor([[True], [True], [False]])).float())


def test_it_is_zero_where_nothing_is_preserved():
    """A batch of wrong responses alone gives 0 and no NaN."""
    assert likelihood_placebo(-torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool), -torch.ones(2)).item() == 0.0


def test_it_acts_from_the_first_update(tiny):
    """Unlike LLDS it has a gradient at θ = θ_old: with one update a rollout batch it changes the weights."""
    once = replace(tiny, minibatches=1, epochs=1)
    weights = []
    for weight in (0.0, 0.5):
        trainer = Trainer(replace(once, placebo=weight), warm_start(once))
        trainer.step()
        weights.append(torch.cat([value.flatten() for value in trainer.model.state_dict().values()]))
    assert not torch.equal(*weights)
