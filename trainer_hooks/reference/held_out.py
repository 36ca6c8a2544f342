"""Paired measurement on responses that no update sees: the same contexts before and after it.

The entropy of a batch moves with its questions and with its luck; the change of entropy on fixed contexts moves with
the weights alone, and is the least noisy early sign of drift there is.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer_hooks.reference.model import token_statistics
from trainer_hooks.reference.protocols import Policy, Rollout

__all__ = ["HeldOut"]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Held-out responses with their statistics under the weights before the update."""

    rollout: Rollout
    logprobs: Tensor
    entropies: Tensor

    @classmethod
    @torch.no_grad()
    def before(cls, model: Policy, rollout: Rollout) -> "HeldOut":
        """Score fresh responses under the policy that sampled them."""
        return cls(rollout, *token_statistics(model, rollout.tokens, rollout.mask))

    @torch.no_grad()
    def after(self, model: Policy) -> dict[str, float]:
        """Score the same responses under the updated weights.

        Returns:
            ``entropy/paired_delta``: mean over action tokens of H(π_θ'|context) − H(π_θ|context), nats a token.
            ``displacement/cross``: mean over action tokens of correct responses of ln π_θ' − ln π_θ, nats a token.
            The latter is absent where no held-out response is correct.
        """
        mask = self.rollout.mask
        logprobs, entropies = token_statistics(model, self.rollout.tokens, mask)
        signals = {"entropy/paired_delta": ((entropies - self.entropies).sum() / mask.sum()).item()}
        correct = self.rollout.rewards > 0
        if correct.any():
            displaced = (logprobs - self.logprobs)[correct].sum()
            signals["displacement/cross"] = (displaced / mask[correct].sum()).item()
        return signals
