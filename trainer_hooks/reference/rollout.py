"""Sampling: responses of a batch of questions, tool feedback injected between actions as it comes.

All rows advance together, one position at a time: a row takes its next forced token (prompt, feedback) where it has
one, and a sampled token otherwise. Knows nothing of rewards' use, losses or training.
"""

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer_hooks.reference.episode import Episode
from trainer_hooks.reference.model import Cache, PolicyModel

__all__ = ["Rollout", "sample"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Responses as arrays, one row an episode; B responses, T tokens with the prompt.

    Attributes:
        tokens: Token ids, ``(B, T)``; 0 after the end.
        mask: True on action tokens, ``(B, T)``; False on prompt, feedback and padding.
        rewards: ``(B,)``.
        truncated: True where the episode was cut by the length of the context, ``(B,)``.
        episodes: What happened in each.
    """

    tokens: Tensor
    mask: Tensor
    rewards: Tensor
    truncated: Tensor
    episodes: list[Episode]


@torch.no_grad()
def sample(
    model: PolicyModel, episodes: list[Episode], *, generator: torch.Generator, temperature: float = 1.0
) -> Rollout:
    """Play every episode to its end, or to the model's context length.

    Args:
        model: The policy; not changed.
        episodes: Fresh episodes, one a row; played in place.
        generator: The only source of randomness.
        temperature: Above 0; 1 samples from the policy as it is.

    Returns:
        The responses, cut to the longest.
    """
    length = model.shape.positions
    tokens = torch.zeros(len(episodes), length, dtype=torch.long)
    mask = torch.zeros(len(episodes), length, dtype=torch.bool)
    forced = [deque(episode.question.prompt) for episode in episodes]
    cache = Cache(model.shape, len(episodes))
    alive = list(range(len(episodes)))
    drawn = torch.zeros(len(episodes), dtype=torch.long)
    position = 0
    while alive and position < length:
        column, sampled = [], []
        for row, token in zip(alive, drawn.tolist(), strict=True):
            if forced[row]:
                column.append(forced[row].popleft())
                sampled.append(False)
            else:
                column.append(token)
                sampled.append(not episodes[row].is_over)
                if sampled[-1]:
                    forced[row].extend(episodes[row].step(token))
        rows = torch.tensor(alive)
        fed = torch.tensor(column)
        is_action = torch.tensor(sampled)
        tokens[rows, position] = fed * (is_action | torch.tensor([not episodes[row].is_over for row in alive]))
        mask[rows, position] = is_action
        position += 1
        kept = [index for index, row in enumerate(alive) if not episodes[row].is_over]
        # Dropping rows copies the cache, so it waits until a quarter of them is done.
        if len(kept) <= 0.75 * len(alive):
            alive = [alive[index] for index in kept]
            cache.keep(torch.tensor(kept, dtype=torch.long))
            fed = fed[kept]
        if alive and position < length:
            probabilities = torch.softmax(model.next_logits(fed, cache) / temperature, dim=-1)
            drawn = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
    used = int(mask.any(dim=0).nonzero().max()) + 1 if mask.any() else 1
    return Rollout(
        tokens=tokens[:, :used],
        mask=mask[:, :used],
        rewards=torch.tensor([episode.reward for episode in episodes]),
        truncated=torch.tensor([not episode.is_over for episode in episodes]),
        episodes=episodes,
    )
