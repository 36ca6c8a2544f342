"""Paired measurement on held-out responses: the same contexts before and after an update.

The entropy of a batch varies with its questions and with sampling noise. The change of entropy on fixed contexts
depends on the weights alone, and is the least noisy early sign of drift.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer_hooks.losses.token_arrays import action_index
from trainer_hooks.reference.distributed import SINGLE_PROCESS, Ranks
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Policy, Rollout
from trainer_hooks.reference.updates.batch import select

__all__ = ["HeldOut"]

ACTIONS = 2
"""Actions with a displacement signal of their own."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Held-out responses with their statistics under the weights before the update."""

    tokens: Tensor
    mask: Tensor
    correct: Tensor
    logprobs: Tensor
    entropies: Tensor
    ranks: Ranks

    @classmethod
    @torch.no_grad()
    def before(cls, model: Policy, rollout: Rollout, ranks: Ranks = SINGLE_PROCESS) -> "HeldOut":
        """Score this rank's share of fresh responses under the policy that sampled them."""
        share = select(rollout, ranks.shard(torch.arange(len(rollout.episodes))))
        device = next(model.parameters()).device
        tokens, mask = share.tokens.to(device), share.mask.to(device)
        return cls(tokens, mask, share.rewards.to(device) > 0, *token_statistics(model, tokens, mask), ranks)

    @torch.no_grad()
    def after(self, model: Policy, *, epsilon: float = 0.0) -> dict[str, float]:
        """Score the same responses under the updated weights.

        Args:
            model: The policy after the update.
            epsilon: ε of Def. 4.1, nats: a response or an action has lazy likelihood displacement where Δ ≤ ε.

        Returns:
            ``entropy/paired_delta``: mean over action tokens of H(π_θ'|context) − H(π_θ|context), nats a token.
            ``displacement/cross``: mean over action tokens of correct responses of ln π_θ' − ln π_θ, nats a token.
            ``displacement/cross_action0`` and ``_action1``: mean of Δ_t of an action of a correct response, nats an
            action (eq. 2). ``displacement/lld_frac`` and ``displacement/lld_action_frac``: share of correct responses
            with Σ_t Δ_t ≤ ε, and of their actions with Δ_t ≤ ε.
            Each is absent where there is no such token, action or response on any rank.
        """
        logprobs, entropies = token_statistics(model, self.tokens, self.mask)
        moved = logprobs - self.logprobs
        by_action, has_action = _action_sums(moved[self.correct], self.mask[self.correct])
        spoke = has_action.any(dim=1)
        sums = [
            (entropies - self.entropies).sum(),
            self.mask.sum(),
            moved[self.correct].sum(),
            self.mask[self.correct].sum(),
            ((by_action.sum(dim=1) <= epsilon) & spoke).sum(),
            spoke.sum(),
            ((by_action <= epsilon) & has_action).sum(),
            has_action.sum(),
        ]
        for action in range(ACTIONS):
            sums += [by_action[:, action].sum(), has_action[:, action].sum()]
        totals = self.ranks.sum(torch.stack([part.float() for part in sums])).view(-1, 2).unbind()
        names = ["entropy/paired_delta", "displacement/cross", "displacement/lld_frac", "displacement/lld_action_frac"]
        names += [f"displacement/cross_action{action}" for action in range(ACTIONS)]
        return {name: (total / count).item() for name, (total, count) in zip(names, totals, strict=True) if count > 0}


def _action_sums(moved: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Sum changes of ln π over each action: Δ_t and whether there is such an action, each ``(B, actions)``."""
    index = action_index(mask)
    columns = max(ACTIONS, int(index.max()) + 1 if index.numel() else 0)
    # One more column takes the tokens outside actions, and is dropped.
    places = torch.where(index < 0, columns, index)
    sums = moved.new_zeros(len(mask), columns + 1).scatter_add_(1, places, moved)
    counts = moved.new_zeros(len(mask), columns + 1).scatter_add_(1, places, torch.ones_like(moved))
    return sums[:, :columns], counts[:, :columns] > 0
