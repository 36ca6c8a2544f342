"""Sampling by turns: rows generate until enough of them wait for the tool, which then answers them in one call.

Prompts and feedback are fed as whole chunks, each row at its own length; only actions are decoded token by token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
import torch
from torch import Tensor

from trainer_hooks.reference.huggingface.decoders import Decoder
from trainer_hooks.reference.policy.token_sampling import draw, sampler_logprobs
from trainer_hooks.reference.protocols import Environment, Episode, Policy, Rollout

__all__ = ["play"]

_MIN_GENERATING = 0.5
"""The tool is called when at most this share of the rows still generates, so that one request serves many rows."""


@dataclass(slots=True)
class _SampledResponse:
    """One response while it is sampled."""

    episode: Episode
    context: int
    tokens: list[int]
    is_action: list[bool]
    """Whether each token is an action token, up to the newest feedback: False on prompt and feedback."""
    scores: dict[int, float] = field(default_factory=dict)
    """Log-probability of action tokens under the sampler by position, where the sampler is not the policy."""
    is_generating: bool = True
    is_waiting: bool = False

    def append_token(self, token: int) -> bool:
        """Append a sampled token; return whether the row stops generating with it."""
        self.tokens.append(token)
        self.is_waiting = self.episode.step(token)
        self.is_generating = not self.is_waiting and len(self.tokens) < self.context
        return not self.is_generating

    def append_feedback(self, feedback: Sequence[int]) -> None:
        """Append the feedback to an action, as far as there is room."""
        kept = feedback[: self.context - len(self.tokens)]
        self.is_action = self.mask(len(self.tokens)) + [False] * len(kept)
        self.tokens += kept
        self.is_waiting, self.is_generating = False, not self.episode.is_over and len(self.tokens) < self.context

    def mask(self, width: int) -> list[bool]:
        """Return the action mask, padded with False to a width."""
        mask = self.is_action + [True] * (len(self.tokens) - len(self.is_action))
        return mask + [False] * (width - len(mask))

    def unread(self, read: int) -> list[int]:
        """Return the tokens to feed next, after ``read`` tokens; none while the row waits for the tool."""
        return [] if self.is_waiting else self.tokens[read:]


def play(
    policy: Policy,
    decoder: Decoder,
    environment: Environment,
    episodes: Sequence[Episode],
    *,
    context: int,
    generator: torch.Generator,
    temperature: float,
    top_p: float = 1.0,
) -> Rollout:
    """Sample every episode to its end, or to ``context`` tokens.

    Args:
        policy: Maps the decoder's hidden states to logits.
        decoder: A decoder that has read no token.
        environment: Answers the actions.
        episodes: One episode for each row; played in place.
        context: Most tokens of a response, with its prompt.
        generator: The only source of randomness.
        temperature: Above 0.
        top_p: Mass of the most probable tokens that are drawn from, in (0, 1].

    Returns:
        The responses, cut to the longest, on the CPU.

    Raises:
        FloatingPointError: If the model's probabilities are not finite.
    """
    rows = [_row(episode, context) for episode in episodes]
    is_policy = temperature == top_p == 1.0
    with torch.inference_mode():
        alive = list(rows)
        hidden = _read_prompts(decoder, rows)
        while alive:
            logits = policy.logits(hidden)
            drawn = draw(logits, generator, temperature, top_p)
            if not is_policy:
                scores = sampler_logprobs(logits, drawn, temperature, top_p).tolist()
                for row, score in zip(alive, scores, strict=True):
                    if row.is_generating:
                        row.scores[len(row.tokens)] = score
            sampled = zip(alive, drawn.tolist(), strict=True)
            stopped = [row.append_token(token) for row, token in sampled if row.is_generating]
            if any(stopped):
                alive = _settle(decoder, environment, alive)
            if len(stopped) == len(alive) and not any(stopped):
                # Each row has exactly one new token to feed.
                hidden = decoder.feed(drawn[:, None], [1] * len(alive))[:, 0]
            elif alive:
                lengths = decoder.cache.lengths
                hidden = _read(decoder, [row.unread(read) for row, read in zip(alive, lengths, strict=True)])
    return _rollout(rows, is_policy=is_policy)


def _settle(decoder: Decoder, environment: Environment, alive: list[_SampledResponse]) -> list[_SampledResponse]:
    """Ask the tool if enough rows wait for it, drop finished rows if there are many, and return the others."""
    if sum(row.is_generating for row in alive) <= _MIN_GENERATING * len(alive):
        waiting = [row for row in alive if row.is_waiting]
        feedback = environment.feedback([row.episode for row in waiting]) if waiting else []
        for row, ids in zip(waiting, feedback, strict=True):
            row.append_feedback(ids)
    kept = [index for index, row in enumerate(alive) if row.is_generating or row.is_waiting]
    # Dropping rows copies the cache, so it waits until a quarter of them is done.
    if len(kept) > 0.75 * len(alive):
        return alive
    decoder.cache.keep(kept)
    return [alive[index] for index in kept]


def _row(episode: Episode, context: int) -> _SampledResponse:
    prompt = list(episode.prompt)
    if not 0 < len(prompt) < context:
        raise ValueError(
            f"a prompt must have at least 1 token and leave room to answer in {context}, got {len(prompt)} tokens; "
            "raise --context or leave the question out"
        )
    return _SampledResponse(episode, context, prompt, [False] * len(prompt))


def _read_prompts(decoder: Decoder, rows: list[_SampledResponse]) -> Tensor:
    """Feed each different prompt once, however many responses begin with it."""
    numbers: dict[tuple[int, ...], int] = {}
    of_row = [numbers.setdefault(tuple(row.tokens), len(numbers)) for row in rows]
    hidden = _read(decoder, list(numbers))
    decoder.cache.keep(of_row)
    return hidden[torch.tensor(of_row, device=hidden.device)]


def _read(decoder: Decoder, unread: Sequence[Sequence[int]]) -> Tensor:
    """Feed the new tokens of each row; return the hidden state after the last token of each, ``(b, d)``."""
    counts = [len(tokens) for tokens in unread]
    padded = torch.tensor([*zip_longest(*unread, fillvalue=0)]).T
    device = decoder.cache.device
    hidden = decoder.feed(padded.to(device), counts)
    last = torch.tensor([max(count - 1, 0) for count in counts], device=device)
    return hidden[torch.arange(len(counts), device=device), last]


def _rollout(rows: list[_SampledResponse], *, is_policy: bool) -> Rollout:
    used = max(len(row.tokens) for row in rows)
    # Through numpy, which reads lists five times as fast as torch.
    tokens = torch.from_numpy(np.array([row.tokens + [0] * (used - len(row.tokens)) for row in rows]))
    mask = torch.from_numpy(np.array([row.mask(used) for row in rows]))
    return Rollout(
        tokens=tokens,
        mask=mask,
        rewards=torch.tensor([row.episode.reward for row in rows]),
        truncated=torch.tensor([not row.episode.is_over for row in rows]),
        episodes=[row.episode for row in rows],
        sampler_logprobs=None if is_policy else _scores(rows, used),
    )


def _scores(rows: list[_SampledResponse], width: int) -> Tensor:
    scores = torch.zeros(len(rows), width)
    for number, row in enumerate(rows):
        scores[number, list(row.scores)] = torch.tensor(list(row.scores.values()), dtype=torch.float32)
    return scores
