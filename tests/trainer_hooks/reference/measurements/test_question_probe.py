"""The probe of eq. 3: what one question's update does to it, with nothing left behind."""

import math
from dataclasses import replace

import pytest
import torch

from trainer_hooks.reference.measurements.question_probe import (
    MULTIPLIERS,
    QuestionProbe,
    displacement_by_question,
    gwhes_by_action,
    half_fall_multiplier,
    probe_signals,
)
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.run.trainer import Trainer


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
    """After the probe the weights, the moments and the batch are unchanged."""
    trainer, batch = trained
    before, logprobs = everything(trainer), batch.logprobs.clone()
    assert displacement_by_question(trainer.learner, batch)
    assert torch.equal(everything(trainer), before)
    assert torch.equal(batch.logprobs, logprobs)


def test_the_probe_measures_the_update_on_that_question(trained):
    """Δ of a group equals updating on it by hand and scoring its correct responses before and after."""
    trainer, batch = trained
    found = displacement_by_question(trainer.learner, batch, optimiser="run")
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
    assert found.keys() == gwhes_by_action(trainer.model, batch).keys() == mixed


def test_a_probed_run_is_the_run_without_the_probe(tiny):
    """Probing every step changes no weight of the run, and reports its signals."""
    plain, probed = (Trainer(replace(tiny, probe_every=every), warm_start(tiny)) for every in (0, 1))
    results = [(plain.step(), probed.step()) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(plain.model.parameters(), probed.model.parameters(), strict=True))
    assert any("probe/fell_frac" in result.scalars for _, result in results)


def test_the_probe_does_not_depend_on_the_momentum_of_other_questions(trained):
    """Moments made by other questions change nothing by default, and change Δ where the run's own are asked for."""
    trainer, batch = trained
    default, own = (
        displacement_by_question(trainer.learner, batch, **options) for options in ({}, {"optimiser": "run"})
    )
    for state in trainer.learner.optimiser.state.values():
        state["exp_avg"].normal_(std=1.0, generator=torch.Generator().manual_seed(0))
    assert displacement_by_question(trainer.learner, batch) == default
    assert displacement_by_question(trainer.learner, batch, optimiser="run") != own


def test_a_multiplier_is_a_learning_rate_so_many_times_as_large(trained):
    """Twice the multiplier at half the rate is the same update, and the rate is restored."""
    trainer, batch = trained
    optimiser = trainer.learner.optimiser
    rate = optimiser.param_groups[0]["lr"]
    plain = displacement_by_question(trainer.learner, batch)
    assert optimiser.param_groups[0]["lr"] == rate
    optimiser.param_groups[0]["lr"] = rate / 2
    assert displacement_by_question(trainer.learner, batch, multiplier=2.0) == plain


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.0, 0.0, 0.25, 0.75, 1.0], 2**2.5),
        ([0.5, 0.0, 0.0, 0.0, 0.0], 1.0),
        ([0.0, 0.0, 0.0, 0.4, 0.5], 16.0),
        ([0.0, 0.0, 0.0, 0.0, 0.4], None),
    ],
)
def test_the_multiplier_at_which_half_the_questions_fall_is_interpolated(shares, expected):
    """0.25 at 4 and 0.75 at 8 cross one half in the middle of log₂: 2^2.5; never reached is None."""
    assert half_fall_multiplier(dict(zip(MULTIPLIERS, shares, strict=True))) == (expected and pytest.approx(expected))


def test_the_signals_of_a_probe_are_those_of_its_questions():
    """Two questions by hand: means, shares, s* and GWHES by action, with NaN for an action that no response has."""
    probes = {
        3: QuestionProbe({1.0: 0.5, 2.0: -0.5}, gwhes=-4.0, gwhes_by_action=(1.0, -5.0)),
        5: QuestionProbe({1.0: 0.1, 2.0: -0.1}, gwhes=-2.0, gwhes_by_action=(-2.0, math.nan)),
    }
    signals = probe_signals(probes)
    assert signals == pytest.approx(
        {
            "probe/displacement_mean": 0.3,
            "probe/fell_frac": 0.0,
            "probe/half_fall_multiplier": 2**0.5,
            "similarity/gwhes": -3.0,
            "similarity/gwhes_positive_frac": 0.0,
            "similarity/gwhes_action0": -0.5,
            "similarity/gwhes_action0_positive_frac": 0.5,
            "similarity/gwhes_action1": -5.0,
        }
    )
    assert probe_signals({}) == {}


def test_a_sweep_reports_a_displacement_for_every_multiplier(tiny):
    """With probe_sweep each probed question has five displacements; the first equals that without a sweep."""
    plain, sweep = (Trainer(replace(tiny, probe_every=1, probe_sweep=on), warm_start(tiny)) for on in (False, True))
    one, five = plain.step(), sweep.step()
    assert one.probes.keys() == five.probes.keys() != set()
    for group, probe in five.probes.items():
        assert tuple(probe.displacement) == MULTIPLIERS
        assert one.probes[group].displacement == {1.0: probe.displacement[1.0]}
    assert five.scalars["similarity/gwhes"] == pytest.approx(
        sum(probe.gwhes for probe in five.probes.values()) / len(five.probes)
    )
