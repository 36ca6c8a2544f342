"""The policy loss for verl, in a registry of verl's form; tests/trainers compares it with verl itself."""

import sys
from types import ModuleType

import pytest
import torch

from trainer_hooks.losses import llds_loss
from trainer_hooks.losses.verl import last_actions, register_llds, register_presets


@pytest.fixture
def registry(monkeypatch):
    """Replace verl's module by one with the functions of its registry and a base loss of 0."""
    losses = {"vanilla": lambda **_: (torch.zeros(()), {})}
    core = ModuleType("verl.trainer.ppo.core_algos")
    core.get_policy_loss_fn = losses.__getitem__
    core.register_policy_loss = lambda name: lambda loss: losses.setdefault(name, loss)
    package = ModuleType("verl.trainer.ppo")
    package.core_algos = core
    for name, module in (("verl", ModuleType("verl")), ("verl.trainer", ModuleType("verl.trainer"))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "verl.trainer.ppo", package)
    monkeypatch.setitem(sys.modules, "verl.trainer.ppo.core_algos", core)
    return losses


@pytest.fixture
def tokens():
    """Return three responses of up to eight tokens, with three, two and one actions; the last response has A < 0."""
    draw = torch.Generator().manual_seed(3)
    mask = torch.tensor([[1, 1, 0, 1, 1, 0, 1, 1], [1, 1, 1, 0, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0, 0]])
    old = -torch.rand(3, 8, generator=draw)
    new = old - 0.3 * torch.rand(3, 8, generator=draw)
    advantages = torch.tensor([1.0, 0.0, -1.0])[:, None] * torch.ones(3, 8)
    return {"old_log_prob": old, "log_prob": new, "advantages": advantages, "response_mask": mask}


def expected(tokens, **options):
    """Compute λ = 0.1 times the penalty divided by all tokens."""
    arrays = tokens["log_prob"], tokens["old_log_prob"], tokens["response_mask"].bool(), tokens["advantages"][:, 0]
    return 0.1 * llds_loss(*arrays, gate="action", normaliser="all", **options).item()


def test_the_hook_is_the_form_of_the_release(registry, tokens):
    """By default the penalty is divided by all action tokens, and no token is left out of it."""
    register_llds()
    assert registry["llds"](**tokens)[0].item() == pytest.approx(expected(tokens))


def test_the_settings_of_the_release_have_a_name(registry, tokens):
    """``loss_mode=llds_release`` is twice ``llds``: λ = 0.2, with the same gate and divisor."""
    register_presets()
    assert registry["llds"](**tokens)[0].item() == pytest.approx(expected(tokens))
    assert registry["llds_release"](**tokens)[0].item() == pytest.approx(2 * expected(tokens))


def test_the_last_action_stands_for_the_answer():
    """The last action is marked where a response has more than one action, and nowhere else."""
    mask = torch.tensor([[True, False, True, True], [True, True, False, False], [False, False, False, False]])
    assert last_actions(mask).tolist() == [[False, False, True, True], [False] * 4, [False] * 4]


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_answer_may_weigh_less(weight, registry, tokens):
    """A weight of 0 gives LLDS-MA with the last action as the answer; a weight of 0.5 reduces the answer's penalty."""
    register_llds("masked", answer_weight=weight)
    answer = last_actions(tokens["response_mask"].bool())
    wanted = expected(tokens, answer_mask=answer, answer_weight=weight)
    assert registry["masked"](**tokens)[0].item() == pytest.approx(wanted)
    assert wanted < expected(tokens)


def test_the_weight_of_the_answer_adapts_to_the_tool_calls(registry, tokens):
    """Two, one and no calls have a mean of one per response, at which the answer is left out."""
    register_llds("adaptive", answer_weight=0.5, answer_adaptive=True)
    answer = last_actions(tokens["response_mask"].bool())
    wanted = expected(tokens, answer_mask=answer, answer_weight=0.0)
    assert registry["adaptive"](**tokens)[0].item() == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"answer_weight": 0.0, "answer_adaptive": True}, "answer_adaptive multiplies answer_weight, which must be"),
        ({"answer_weight": 2.0}, r"answer_weight must be in \[0, 1\], got 2.0"),
        ({"coef": -0.1}, "coef must be a finite number of at least 0, got -0.1"),
        ({"coef": float("inf")}, "coef must be a finite number of at least 0, got inf"),
        ({"gate": "token"}, 'gate must be "response", "action" or "none", got \'token\''),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong, message, registry):
    """The error is raised before the loss is registered, and not at the first update of a training."""
    with pytest.raises(ValueError, match=message):
        register_llds("wrong", **wrong)
    assert "wrong" not in registry
