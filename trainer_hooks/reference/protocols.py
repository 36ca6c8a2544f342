"""What the trainer asks of a policy and of a world, so that any policy plays in any world.

A policy gives hidden states, logits and sampled responses; a world gives questions, reads actions, answers them and
pays. Between them are token ids and nothing else.
"""

import random
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["Episode", "Policy", "Rollout", "World"]


class Episode(Protocol):
    """One response in the making."""

    @property
    def prompt(self) -> Sequence[int]:
        """Token ids that the response begins with."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it takes no more tokens."""
        ...

    @property
    def reward(self) -> float:
        """What it has earned so far."""
        ...

    @property
    def answer_mask(self) -> Sequence[bool]:
        """One entry a sampled token, in order: True from ``<answer>`` to the end of its action."""
        ...

    @property
    def tool_calls(self) -> int:
        """Attempts to use the tool, unreadable ones included."""
        ...

    @property
    def tool_calls_valid(self) -> int:
        """Attempts to use the tool that could be read."""
        ...

    @property
    def first_feedback(self) -> int:
        """A number for what the first action brought back, equal for equal feedback; −1 for none."""
        ...

    def step(self, token: int) -> bool:
        """Take one sampled token; give whether it ended an action, whose feedback is then due.

        Raises:
            ValueError: If the episode is over.
        """
        ...


class World(Protocol):
    """Where questions come from, and what answers actions."""

    @property
    def questions(self) -> Sequence[Any]:
        """What is trained on; opaque to the trainer."""
        ...

    @property
    def control_ids(self) -> Sequence[int]:
        """Token ids of the protocol's tags, as far as a tag is one token."""
        ...

    def held_out(self, draw: random.Random, count: int) -> list[Any]:
        """Draw questions that are never trained on."""
        ...

    def episode(self, question: Any) -> Episode:  # noqa: ANN401 - a question is the world's own
        """Begin an episode."""
        ...

    def feedback(self, episodes: Sequence[Any]) -> list[list[int]]:
        """Answer, all at once, the action that has just ended in each of the episodes.

        Returns:
            Token ids of feedback, an episode each; empty where that action was the last.
        """
        ...


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
    episodes: Sequence[Episode]


class Policy(nn.Module):
    """A causal language model that is trained: whatever subclasses this, the trainer takes."""

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Number of tokens that it chooses from."""

    @abstractmethod
    def hidden(self, tokens: Tensor) -> Tensor:
        """Give the last hidden state after each token: ``(B, T)`` to ``(B, T, width)``, where the weights are.

        Rows are padded at the end, where no token before it can see the padding.
        """

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Map hidden states ``(..., width)`` to next-token logits ``(..., V)``."""

    @abstractmethod
    def sample(
        self, world: World, episodes: Sequence[Episode], *, generator: torch.Generator, temperature: float = 1.0
    ) -> Rollout:
        """Play every episode to its end, or to the length of the context.

        Args:
            world: Answers the actions.
            episodes: Fresh episodes of that world, one a row; played in place.
            generator: The only source of randomness.
            temperature: Above 0; 1 samples from the policy as it is.
        """
