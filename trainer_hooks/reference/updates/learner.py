"""Policy, critic and reference with their optimisers, and one update on a minibatch."""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from trainer_hooks.losses import value_loss
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.distributed import Ranks
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Policy
from trainer_hooks.reference.updates.adjustment import UNADJUSTED, Adjustment
from trainer_hooks.reference.updates.batch import Minibatch, TrainingBatch
from trainer_hooks.reference.updates.critic import Critic
from trainer_hooks.reference.updates.objective import k3_divergence, policy_losses

__all__ = ["Learner"]


class Learner:
    """Updates a policy's weights, together with the other ranks.

    Args:
        config: Every setting.
        policy: The warm start, trained in place. A copy is kept as the reference if ``config.kl``, a possible fork or
            the adjustment of a checkpoint needs one, and another copy becomes the critic under PPO.
        ranks: The processes that train it together.

    Attributes:
        config: The settings in force: the given settings, with the changes of forks.
    """

    def __init__(self, config: Config, policy: Policy, ranks: Ranks) -> None:
        self._given = self.config = config
        self._adjustment = UNADJUSTED
        self.policy = policy
        self.optimiser = _adamw(policy, config.lr, weight_decay=config.weight_decay)
        is_referred_to = config.kl > 0 or config.on_acceleration == "fork"
        self.reference = _freeze_copy(policy) if is_referred_to else None
        self.critic = Critic(policy) if config.optimises.has_critic else None
        if self.critic is not None:
            self.critic_optimiser = _adamw(self.critic, config.critic_lr)
            self._values = ranks.wrap(self.critic)
        self._statistics = ranks.wrap(_Scorer(policy))

    @property
    def adjustment(self) -> Adjustment:
        """The changes of rollbacks and forks to the settings.

        Raises:
            ValueError: If a change turns the KL term on after the first update, when no copy of the warm start is kept.
        """
        return self._adjustment

    @adjustment.setter
    def adjustment(self, value: Adjustment) -> None:
        config = replace(self._given, **value.settings)
        if config.kl > 0 and self.reference is None:
            if self.optimiser.state:
                raise ValueError(
                    f"kl must be 0 where no copy of the warm start is kept, got {config.kl}: set kl or on_acceleration "
                    "fork from the start, or load the checkpoint before the first update"
                )
            self.reference = _freeze_copy(self.policy)
        self._adjustment, self.config = value, config

    @property
    def llds_weight(self) -> float:
        """λ in force."""
        return self.config.llds_weight if self.adjustment.lambda_ is None else self.adjustment.lambda_

    def set_rate(self, step: int) -> None:
        """Set the learning rates of a step, counted from 0: a linear rise over ``lr_warmup`` steps, then constant."""
        config = self.config
        share = min(1.0, (step + 1) / config.lr_warmup) if config.lr_warmup else 1.0
        for group in self.optimiser.param_groups:
            group["lr"] = config.lr * share * self.adjustment.lr_factor
        if self.critic is not None:
            for group in self.critic_optimiser.param_groups:
                group["lr"] = config.critic_lr * share * self.adjustment.lr_factor

    def update(self, batch: TrainingBatch, part: Minibatch, *, alone: bool = False) -> dict[str, float]:
        """Take one optimiser step on a minibatch; return its losses and the norm of its gradient before clipping.

        Where the norm is NaN or Inf the weights stay as they are.

        Args:
            batch: The batch; the log-probabilities of this forward pass are written to its ``logprobs``.
            part: The minibatch.
            alone: Whether to update without the other ranks and the critic, for a probe.
        """
        config, rows = self.config, part.rows
        tokens, mask = batch.tokens[rows], batch.mask[rows]
        logprobs, entropies = token_statistics(self.policy, tokens, mask) if alone else self._statistics(tokens, mask)
        batch.logprobs[rows] = logprobs.detach()
        losses = policy_losses(batch, part, logprobs, config=config)
        total = losses["loss/policy"] + self.llds_weight * losses["loss/llds"]
        if "loss/placebo" in losses:
            total = total + config.placebo_weight * losses["loss/placebo"]
        if "loss/kl_cov" in losses:
            total = total + config.covariance_weight * losses["loss/kl_cov"]
        if config.kl > 0 and self.reference is not None:
            with torch.no_grad():
                held, _ = token_statistics(self.reference, tokens, mask)
            losses["kl/ref"] = k3_divergence(logprobs, held, mask, normaliser=part.tokens)
            total = total + config.kl * losses["kl/ref"]
        if config.entropy_bonus:
            total = total - config.entropy_bonus * entropies.sum() / part.tokens
        norm = _descend(total, self.optimiser, config.max_grad_norm)
        if batch.values is not None and self.critic is not None and not alone:
            old, returns = batch.values.old[rows], batch.values.returns[rows]
            losses["loss/value"] = value_loss(
                self._values(tokens, mask), old, returns, mask, clip=config.clip, normaliser=part.tokens
            )
            _descend(losses["loss/value"], self.critic_optimiser, config.max_grad_norm)
        return {name: loss.item() for name, loss in losses.items()} | {"grad/norm": norm}

    def state(self) -> dict[str, Any]:
        """Return weights and optimiser moments."""
        state = {"model": self.policy.state_dict(), "optimiser": self.optimiser.state_dict()}
        if self.critic is not None:
            state |= {"critic": self.critic.state_dict(), "critic_optimiser": self.critic_optimiser.state_dict()}
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.policy.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])
            self.critic_optimiser.load_state_dict(state["critic_optimiser"])


class _Scorer(nn.Module):
    """`token_statistics` as a forward pass, where DistributedDataParallel averages gradients over ranks."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return token_statistics(self.policy, tokens, mask)


def _freeze_copy(policy: Policy) -> Policy:
    return copy.deepcopy(policy).requires_grad_(requires_grad=False)


def _adamw(model: nn.Module, lr: float, *, weight_decay: float = 0.0) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay, fused=True)


def _descend(loss: Tensor, optimiser: torch.optim.Optimizer, limit: float) -> float:
    """Take an optimiser step down a loss; return the norm of its gradient before clipping."""
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(weights, limit or torch.inf)
    # A gradient that is not finite would spoil every weight; its norm is reported as it is, so the failure is visible.
    if norm.isfinite():
        optimiser.step()
    return norm.item()
