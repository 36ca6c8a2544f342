"""Samples responses to a batch of questions; tool feedback is inserted between actions.

All rows advance together, one position at a time: a row takes its next forced token (prompt, feedback) where it has
one, and a sampled token otherwise. This module does not depend on losses or training.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from trainer_hooks.reference.policy.token_sampling import draw, sampler_logprobs
from trainer_hooks.reference.protocols import Environment, Episode, Rollout

__all__ = ["Decoder", "sample"]


class Decoder(Protocol):
    """A model that decodes a position at a time, with a cache that it makes itself."""

    @property
    def context(self) -> int:
        """Positions, prompt and feedback included."""
        ...

    def empty_cache(self, batch: int) -> Any:  # noqa: ANN401 - whatever next_logits takes, with keep(rows)
        """Return a cache for so many rows."""
        ...

    def next_logits(self, tokens: Tensor, cache: Any) -> Tensor:  # noqa: ANN401 - likewise
        """Feed one token a row, ``(B,)``, and give the logits of the next, ``(B, V)``."""
        ...


@torch.no_grad()
def sample(
    model: Decoder,
    environment: Environment,
    episodes: Sequence[Episode],
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> Rollout:
    """Play every episode to its end, or to the model's context length; arguments as in `protocols.Policy.sample`.

    Returns:
        The responses, cut to the longest.
    """
    length = model.context
    tokens = torch.zeros(len(episodes), length, dtype=torch.long)
    mask = torch.zeros(len(episodes), length, dtype=torch.bool)
    forced = [deque(episode.prompt) for episode in episodes]
    cache = model.empty_cache(len(episodes))
    alive = list(range(len(episodes)))
    drawn = [0] * len(episodes)
    # At temperature 1 and top-p 1 the sampler is the policy, so its log-probabilities are not kept.
    scored = None if temperature == top_p == 1.0 else torch.zeros(len(episodes), length)
    scores = torch.zeros(len(episodes))
    position = 0
    while alive and position < length:
        column, sampled, ended = [], [], []
        for row, token in zip(alive, drawn, strict=True):
            if forced[row]:
                column.append(forced[row].popleft())
                sampled.append(False)
            else:
                column.append(token)
                sampled.append(not episodes[row].is_over)
                if sampled[-1] and episodes[row].step(token):
                    ended.append(row)
        for row, feedback in zip(ended, environment.feedback([episodes[row] for row in ended]), strict=True):
            forced[row].extend(feedback)
        rows = torch.tensor(alive)
        fed = torch.tensor(column)
        is_action = torch.tensor(sampled)
        tokens[rows, position] = fed * (is_action | torch.tensor([not episodes[row].is_over for row in alive]))
        mask[rows, position] = is_action
        if scored is not None:
            scored[rows, position] = scores * is_action
        position += 1
        kept = [index for index, row in enumerate(alive) if not episodes[row].is_over]
        # Dropping rows copies the cache, so it waits until a quarter of them is done.
        if len(kept) <= 0.75 * len(alive):
            alive = [alive[index] for index in kept]
            cache.keep(torch.tensor(kept, dtype=torch.long))
            fed = fed[kept]
        if alive and position < length:
            logits = model.next_logits(fed, cache)
            tokens_drawn = draw(logits, generator, temperature, top_p)
            if scored is not None:
                scores = sampler_logprobs(logits, tokens_drawn, temperature, top_p).cpu()
            drawn = tokens_drawn.tolist()
    used = int(mask.any(dim=0).nonzero().max()) + 1 if mask.any() else 1
    return Rollout(
        tokens=tokens[:, :used],
        mask=mask[:, :used],
        rewards=torch.tensor([episode.reward for episode in episodes]),
        truncated=torch.tensor([not episode.is_over for episode in episodes]),
        episodes=episodes,
        sampler_logprobs=None if scored is None else scored[:, :used],
    )
