"""PPO: a critic that learns the expected reward, and advantages of tokens."""

from dataclasses import replace

import pytest
import torch

from trainer_hooks.losses import generalised_advantages
from trainer_hooks.reference.distributed import SINGLE_PROCESS
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.run.telemetry import numbers
from trainer_hooks.reference.run.trainer import Trainer
from trainer_hooks.reference.updates.critic import Critic, credit


@pytest.fixture
def ppo(tiny):
    """The tiny preset under PPO, with a learning rate that shows."""
    return replace(tiny, method="ppo", lr=1e-3, critic_lr=3e-3)


def test_a_fresh_critic_expects_nothing_and_touches_no_generator(model):
    """Values of zero everywhere; the global generator is left alone."""
    torch.manual_seed(3)
    before = torch.get_rng_state()
    critic = Critic(model)
    assert torch.equal(torch.get_rng_state(), before)
    mask = torch.tensor([[False, True, True]])
    assert torch.equal(critic(torch.ones(1, 3, dtype=torch.long), mask), torch.zeros(1, 3))


def test_a_value_is_that_of_the_context_before_its_token(model):
    """Changing a token changes the values of later ones and not its own."""
    critic = Critic(model)
    torch.nn.init.ones_(critic.head.weight)
    tokens, mask = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[False, True, True, True]])
    changed = critic(torch.tensor([[1, 2, 9, 4]]), mask) - critic(tokens, mask)
    assert torch.equal(changed[0, :3], torch.zeros(3))
    assert changed[0, 3] != 0


def test_advantages_are_standardised_over_action_tokens(ppo):
    """Mean 0 and standard deviation 1 over them, 0 elsewhere; the explained share is 1 − Var(R̂ − V) / Var(R̂)."""
    draw = torch.Generator().manual_seed(0)
    rewards, values = torch.tensor([1.0, 0.0, 1.0]), torch.rand(3, 6, generator=draw)
    mask = torch.rand(3, 6, generator=draw) < 0.7
    advantages, returns, scalars = credit(rewards, values, mask, config=ppo, ranks=SINGLE_PROCESS)
    raw, expected = generalised_advantages(rewards, values, mask)
    assert torch.allclose(returns, expected)
    assert advantages[mask].mean().item() == pytest.approx(0, abs=1e-6)
    assert advantages[mask].std(correction=0).item() == pytest.approx(1, rel=1e-5)
    assert not advantages[~mask].any()
    explained = 1 - raw[mask].var(correction=0) / returns[mask].var(correction=0)
    assert scalars["value/explained_var"] == pytest.approx(explained.item(), rel=1e-5)


def test_equal_returns_leave_nothing_to_explain(ppo):
    """All wrong: the explained variance is not observed; with a critic that expects nothing advantages are 0."""
    mask = torch.ones(2, 3, dtype=torch.bool)
    advantages, _, scalars = credit(torch.zeros(2), torch.zeros(2, 3), mask, config=ppo, ranks=SINGLE_PROCESS)
    assert not advantages.any()
    assert scalars == {}
    draw = torch.Generator().manual_seed(0)
    assert credit(torch.zeros(2), torch.rand(2, 3, generator=draw), mask, config=ppo, ranks=SINGLE_PROCESS)[2] == {}


def test_the_critic_learns_and_the_policy_is_not_touched_by_its_loss(ppo):
    """Over steps at a learning rate of nothing for the policy, the value's loss falls and the policy stays."""
    still = replace(ppo, lr=1e-30, steps=8)
    trainer = Trainer(still, warm_start(still))
    before = [weight.detach().clone() for weight in trainer.model.parameters()]
    scalars = [trainer.step().scalars for _ in range(8)]
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))
    assert scalars[0]["value/explained_var"] == pytest.approx(0, abs=1e-6)
    assert sum(row["loss/value"] for row in scalars[-2:]) < sum(row["loss/value"] for row in scalars[:2])


def test_likelihood_rises_where_the_advantage_is_positive(ppo):
    """One update on the whole batch: Σ Â (ln π_θ' − ln π_θ) over action tokens is above 0."""
    once = replace(ppo, minibatches=1, epochs=1, lr=1e-4)
    trainer = Trainer(once, warm_start(once))
    batch = trainer.step().batch
    with torch.no_grad():
        after, _ = token_statistics(trainer.model, batch.tokens, batch.mask)
    assert (batch.advantages * (after - batch.old_logprobs)).sum() > 0
    assert batch.advantages.shape == batch.tokens.shape


def test_its_numbers_are_recorded(ppo):
    """Loss and explained variance are among a step's signals, and the shares that LLD would touch are observed."""
    trainer = Trainer(ppo, warm_start(ppo))
    scalars = numbers(trainer.step(), clip=ppo.clip)
    assert {"loss/value", "value/explained_var", "advantage/mean_abs", "lld/penalty_tokens_frac"} <= scalars.keys()
