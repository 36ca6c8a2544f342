"""Paired measurement on held-out responses: the same contexts before and after an update.

The entropy of a batch varies with its questions and with sampling noise. The change of entropy on fixed contexts
depends on the weights alone, and is the least noisy early sign of drift.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Policy, Rollout
from trainer_hooks.reference.run.ranks import SINGLE_PROCESS, Ranks
from trainer_hooks.reference.updates.batch import select

__all__ = ["HeldOut"]


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
    def after(self, model: Policy) -> dict[str, float]:
        """Score the same responses under the updated weights.

        Returns:
            ``entropy/paired_delta``: mean over action tokens of H(π_θ'|context) − H(π_θ|context), nats a token.
            ``displacement/cross``: mean over action tokens of correct responses of ln π_θ' − ln π_θ, nats a token.
            Each is absent where there is no such token on any rank.
        """
        logprobs, entropies = token_statistics(model, self.tokens, self.mask)
        sums = (
            (entropies - self.entropies).sum(),
            self.mask.sum(),
            (logprobs - self.logprobs)[self.correct].sum(),
            self.mask[self.correct].sum(),
        )
        entropy, tokens, displaced, correct = self.ranks.sum(torch.stack([part.float() for part in sums]))
        signals = {"entropy/paired_delta": (entropy, tokens), "displacement/cross": (displaced, correct)}
        return {name: (total / count).item() for name, (total, count) in signals.items() if count > 0}
