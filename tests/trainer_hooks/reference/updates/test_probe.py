"""The probe of eq. 3: what one question's update does to it, with nothing left behind."""

from dataclasses import replace

import pytest
import torch

from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.train import Trainer
from trainer_hooks.reference.updates.probe import displacement_by_question, gwhes_by_question


@pytest.fixture
def trained(tiny):
    """A trainer with momentum, and the batch of its last step."""
    trainer = Trainer(replace(tiny, lr=2e-3), warm_start(tiny))
    for _ in range(3):
        batch = trainer.step().batch
        if batch.advantages.any():
            return trainer, batch
    pytest.fail("three steps gave no mixed group")


def everything(trainer):
    """All weights and moments as one vector."""
    moments = [
        value.flatten().float()
        for state in trainer.learner.optimiser.state_dict()["state"].values()
        for value in state.values()
    ]
    return torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()] + moments)


def test_parameters_and_optimiser_are_put_back_to_the_last_bit(trained):
    """After the probe the weights, the moments and the batch are what they were."""
    trainer, batch = trained
    before, logprobs = everything(trainer), batch.logprobs.clone()
    assert displacement_by_question(trainer.learner, batch)
    assert torch.equal(everything(trainer), before)
    assert torch.equal(batch.logprobs, logprobs)


def test_the_probe_measures_the_update_on_that_question(trained):
    """Δ of a group equals updating on it by hand and scoring its correct responses before and after."""
    trainer, batch = trained
    found = displacement_by_question(trainer.learner, batch)
    group = next(iter(found))
    rows = (batch.group_ids == group).nonzero()[:, 0]
    correct = rows[batch.rewards[rows] > 0]
    with torch.no_grad():
        before = token_statistics(trainer.model, batch.tokens[correct], batch.mask[correct])[0].sum(dim=1)
    trainer.learner.update(batch, batch.minibatch(rows), alone=True)
    with torch.no_grad():
        after = token_statistics(trainer.model, batch.tokens[correct], batch.mask[correct])[0].sum(dim=1)
    assert found[group] == (after - before).mean().item()


def test_only_mixed_groups_count(trained):
    """Groups without variance appear in neither measure."""
    trainer, batch = trained
    rewards = batch.rewards.view(-1, trainer.config.group_size)
    mixed = {group for group, row in enumerate(rewards) if row.min() < row.max()}
    found = displacement_by_question(trainer.learner, batch)
    assert found.keys() == gwhes_by_question(trainer.model, batch).keys() == mixed


def test_a_probed_run_is_the_run_without_the_probe(tiny):
    """Probing every step changes no weight of the run, and tells its signals."""
    plain, probed = (Trainer(replace(tiny, probe_every=every), warm_start(tiny)) for every in (0, 1))
    results = [(plain.step(), probed.step()) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(plain.model.parameters(), probed.model.parameters(), strict=True))
    assert any("probe/fell_frac" in told.scalars for _, told in results)
