"""Paired measurement on held-out responses, worked by hand."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from trainer_hooks.reference.distributed import SINGLE_PROCESS, Ranks
from trainer_hooks.reference.measurements import held_out_changes as held_out
from trainer_hooks.reference.measurements.held_out_changes import HeldOut
from trainer_hooks.reference.run.trainer import Trainer


@pytest.fixture
def scored(monkeypatch):
    """Three responses of six tokens, two correct; after the update ln π has moved by known amounts."""
    mask = torch.tensor([[1, 1, 0, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 0, 0]]).bool()
    before = torch.zeros(3, 6)
    moved = torch.tensor([[0.3, 0.1, 9.0, -0.2, -0.4, 9.0], [-0.1, -0.1, 0.1, 9.0, 9.0, 9.0], [-5.0] * 6]) * mask
    entropies = torch.ones(3, 6) * mask
    monkeypatch.setattr(held_out, "token_statistics", lambda *_: (before + moved, entropies + 0.5 * mask))
    correct = torch.tensor([True, True, False])
    return HeldOut(torch.zeros(3, 6, dtype=torch.long), mask, correct, before, entropies, SINGLE_PROCESS)


def test_displacement_is_that_of_def_4_1_by_action(scored):
    """Actions: +0.4 and −0.6 of one response, −0.1 of the other. Two of three actions are displaced."""
    found = scored.after(SimpleNamespace())
    assert found == pytest.approx(
        {
            "entropy/paired_delta": 0.5,
            "displacement/cross": -0.3 / 7,
            "displacement/lld_frac": 1.0,
            "displacement/lld_action_frac": 2 / 3,
            "displacement/cross_action0": 0.15,
            "displacement/cross_action1": -0.6,
        }
    )


@pytest.mark.parametrize(("epsilon", "responses", "actions"), [(-0.15, 0.5, 1 / 3), (-1.0, 0.0, 0.0), (0.5, 1.0, 1.0)])
def test_epsilon_sets_what_counts_as_displaced(epsilon, responses, actions, scored):
    """At ε = −0.15 only the fall of 0.2 of a response and of 0.6 of an action count."""
    found = scored.after(SimpleNamespace(), epsilon=epsilon)
    assert found["displacement/lld_frac"] == responses
    assert found["displacement/lld_action_frac"] == pytest.approx(actions)


def test_a_rank_without_a_held_out_response_measures_nothing(tiny, model):
    """One response on two ranks: the share of the second is empty."""
    _, unseen = Trainer(replace(tiny, held_out=1), model).sample()
    nothing = replace(HeldOut.before(model, unseen, Ranks(1, 2)), ranks=SINGLE_PROCESS)
    assert len(nothing.tokens) == 0
    assert nothing.after(model) == {}
