"""Likelihood on contexts that never change: the warm start's own correct responses, scored under today's weights.

The likelihood of a batch's correct responses is that of the survivors; the same responses at every step say what the
weights do.
"""

import random
from dataclasses import dataclass, replace

import torch

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.episode import Episode
from trainer_hooks.reference.model import PolicyModel, token_statistics
from trainer_hooks.reference.rollout import Rollout, sample
from trainer_hooks.reference.warm_start import vocabulary_of
from trainer_hooks.reference.world import World

__all__ = ["FixedContexts"]

RESPONSES = 192
_SEED = 987_654_321


@dataclass(frozen=True, slots=True)
class FixedContexts:
    """Correct responses of the warm start to questions that are not trained on."""

    rollout: Rollout

    @classmethod
    def sampled(cls, config: Config, model: PolicyModel) -> "FixedContexts":
        """Draw them: of 192 responses those that are right. The same for every seed of a world and a warm start."""
        world = World(vocabulary_of(config), seed=config.world_seed, long_form=config.long_form)
        draw = random.Random(_SEED)
        episodes = [
            Episode(world, world.question(draw), config.max_actions, config.max_action_tokens, config.retry)
            for _ in range(RESPONSES)
        ]
        rollout = sample(model, episodes, generator=torch.Generator().manual_seed(_SEED))
        right = rollout.rewards > 0
        kept = [episode for episode, is_right in zip(rollout.episodes, right.tolist(), strict=True) if is_right]
        longest = int(rollout.mask[right].any(dim=0).nonzero().max()) + 1 if right.any() else 1
        return cls(
            replace(
                rollout,
                tokens=rollout.tokens[right, :longest],
                mask=rollout.mask[right, :longest],
                rewards=rollout.rewards[right],
                truncated=rollout.truncated[right],
                episodes=kept,
            )
        )

    @torch.no_grad()
    def scores(self, model: PolicyModel) -> dict[str, float]:
        """Score them.

        Returns:
            ``fixed/likelihood``: mean over action tokens of ln π_θ, nats a token.
            ``fixed/entropy``: mean entropy of π_θ at the same tokens, nats.
            Nothing where the warm start had no correct response.
        """
        if not self.rollout.episodes:
            return {}
        mask = self.rollout.mask
        logprobs, entropies = token_statistics(model, self.rollout.tokens, mask)
        count = mask.sum()
        return {
            "fixed/likelihood": (logprobs.sum() / count).item(),
            "fixed/entropy": (entropies.sum() / count).item(),
        }
