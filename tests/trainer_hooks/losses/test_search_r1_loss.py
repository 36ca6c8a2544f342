"""LLDS in Search-R1's policy loss, on a module with that function; tests/trainers has verl 0.2 itself."""

import sys
from types import ModuleType

import pytest
import torch

from trainer_hooks.callbacks.verl.search_r1 import add_llds
from trainer_hooks.losses import grpo_loss, llds_loss
from trainer_hooks.losses.search_r1 import with_llds


@pytest.fixture
def core(monkeypatch):
    """Replace verl's module by one whose policy loss has the signature and the form of verl 0.2."""

    def compute_policy_loss(old_log_prob, log_prob, advantages, eos_mask, cliprange):
        loss = grpo_loss(log_prob, old_log_prob, eos_mask.bool(), advantages, clip_low=cliprange, clip_high=cliprange)
        return loss, torch.tensor(0.25), torch.tensor(0.5)

    core = ModuleType("verl.trainer.ppo.core_algos")
    core.compute_policy_loss = compute_policy_loss
    monkeypatch.setitem(sys.modules, "verl.trainer.ppo.core_algos", core)
    return core


@pytest.fixture
def arrays():
    """Return three responses of up to eight tokens, with two, two and one actions; the last response has A < 0."""
    draw = torch.Generator().manual_seed(3)
    mask = torch.tensor([[1, 1, 0, 1, 1, 1, 1, 1], [1, 1, 1, 0, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0, 0]])
    old = -torch.rand(3, 8, generator=draw)
    new = old - 0.3 * torch.rand(3, 8, generator=draw)
    return old, new, torch.tensor([1.0, 0.0, -1.0])[:, None] * torch.ones(3, 8), mask


def test_the_loss_is_its_own_and_a_fifth_of_llds_over_all_tokens(core, arrays):
    """By default λ = 0.2 with the action gate, divided by all action tokens; the other results stay as they are."""
    old, new, advantages, mask = arrays
    before, *_ = core.compute_policy_loss(*arrays, 0.2)
    add_llds()
    after, clipped, divergence = core.compute_policy_loss(
        old_log_prob=old, log_prob=new, advantages=advantages, eos_mask=mask, cliprange=0.2
    )
    lost = 0.0
    for row in (0, 1):
        action = 0.0
        for column in range(9):
            if column < 8 and mask[row, column]:
                action += (old - new)[row, column].item()
            else:
                lost, action = lost + max(0.0, action), 0.0
    assert (after - before).item() == pytest.approx(0.2 * lost / mask.sum().item())
    assert (clipped, divergence) == (0.25, 0.5)


def test_the_answer_may_be_left_out(core, arrays):
    """With a weight of 0 the last action of a response with a search is not penalised (LLDS-MA)."""
    old, new, advantages, mask = arrays
    before, *_ = core.compute_policy_loss(*arrays, 0.2)
    add_llds(coef=1.0, gate="response", answer_weight=0.0)
    after, *_ = core.compute_policy_loss(*arrays, 0.2)
    last = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 0], [0] * 8]).bool()
    expected = llds_loss(new, old, mask.bool(), advantages[:, 0], answer_mask=last, normaliser="all")
    assert (after - before).item() == pytest.approx(expected.item())


def test_settings_outside_their_range_are_refused(core, arrays, caplog):
    """The message names the setting; where a process is prepared it is a warning, and the loss stays."""
    with pytest.raises(ValueError, match="coef must be a finite number of at least 0, got -1"):
        with_llds(core.compute_policy_loss, coef=-1)
    before, *_ = core.compute_policy_loss(*arrays, 0.2)
    add_llds(answer_weight=2)
    assert "answer_weight must be in [0, 1], got 2" in caplog.text
    add_llds(gate="token")
    assert 'gate must be "response", "action" or "none", got \'token\'' in caplog.text
    after, *_ = core.compute_policy_loss(*arrays, 0.2)
    assert torch.equal(after, before)
