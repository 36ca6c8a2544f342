"""Likelihood on fixed contexts: the first policy's own correct responses, scored under the current weights.

The likelihood of a batch's correct responses has a selection effect; the same responses at every step show the
effect of the weights alone. Their likelihood falls in healthy runs too, where the policy settles on other wordings.
"""

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Environment, Policy

__all__ = ["FixedContexts"]

MOST_RESPONSES = 192
_SEED = 987_654_321


@dataclass(frozen=True, slots=True)
class FixedContexts:
    """Correct responses of the first policy to held-out questions: tokens and action mask, ``(B, T)``."""

    tokens: Tensor
    mask: Tensor

    @classmethod
    def sample(cls, environment: Environment, model: Policy, *, batch: int) -> "FixedContexts":
        """Sample responses and select the correct ones. They are the same for every seed of one environment.

        Args:
            environment: Asks its held-out questions.
            model: The first policy.
            batch: The responses of a rollout batch. Three times as many are sampled, and at most 192, because they are
                scored at every step.
        """
        questions = environment.held_out(random.Random(_SEED), min(MOST_RESPONSES, 3 * batch))
        rollout = model.sample(
            environment,
            [environment.episode(question) for question in questions],
            generator=torch.Generator(next(model.parameters()).device).manual_seed(_SEED),
        )
        right = rollout.rewards > 0
        device = next(model.parameters()).device
        return cls(rollout.tokens[right].to(device), rollout.mask[right].to(device))

    @torch.no_grad()
    def scores(self, model: Policy) -> dict[str, float]:
        """Score them.

        Returns:
            ``fixed/likelihood``: mean over action tokens of ln π_θ, nats a token.
            ``fixed/entropy``: mean entropy of π_θ at the same tokens, nats.
            Nothing where the first policy had no correct response.
        """
        if not self.mask.any():
            return {}
        logprobs, entropies = token_statistics(model, self.tokens, self.mask)
        count = self.mask.sum()
        return {
            "fixed/likelihood": (logprobs.sum() / count).item(),
            "fixed/entropy": (entropies.sum() / count).item(),
        }
