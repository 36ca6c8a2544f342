"""Supervised training of a policy on demonstrations."""

import pytest

from trainer_hooks.reference.policy.supervised_training import train_on_demonstrations
from trainer_hooks.reference.protocols import Demonstration


@pytest.mark.parametrize("steps", [1, 2, 10, 11])
def test_any_number_of_steps_moves_the_weights(model, steps):
    """The climb of the rate is a step or less, and the weights move by about the rate at least once."""
    before = [weight.detach().clone() for weight in model.parameters()]
    shown = Demonstration(tokens=[1, 2, 3, 4], is_action=[False, True, True, True])
    train_on_demonstrations(model, lambda: [shown], steps=steps, lr=1e-2, context=8, report=lambda _: None)
    moved = max((one - other).abs().max().item() for one, other in zip(before, model.parameters(), strict=True))
    assert moved > 4e-3
