"""The interfaces of a policy, an environment and an episode, so that any policy works with any environment.

A policy computes hidden states and logits and samples responses. An environment has questions, parses actions, answers
them and rewards them. The two exchange token ids and nothing else.
"""

import random
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["Demonstration", "Environment", "Episode", "Policy", "Rollout"]


class Episode(Protocol):
    """One response while it is sampled."""

    @property
    def prompt(self) -> Sequence[int]:
        """Token ids that the response begins with."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the episode has ended and takes no more tokens."""
        ...

    @property
    def reward(self) -> float:
        """The reward so far."""
        ...

    @property
    def answer_mask(self) -> Sequence[bool]:
        """One entry a sampled token, in order: True from ``<answer>`` to the end of its action."""
        ...

    @property
    def tool_calls(self) -> int:
        """Attempts to use the tool, malformed ones included."""
        ...

    @property
    def tool_calls_valid(self) -> int:
        """Attempts to use the tool that were well formed."""
        ...

    @property
    def tool_calls_empty(self) -> int:
        """Well-formed attempts for which the tool found nothing."""
        ...

    @property
    def first_feedback(self) -> int:
        """A number that identifies the feedback to the first action; −1 for no feedback."""
        ...

    def step(self, token: int) -> bool:
        """Take one sampled token; return whether it ended an action, whose feedback is then due.

        Raises:
            ValueError: If the episode is over.
        """
        ...


class Environment(Protocol):
    """A source of questions that also answers actions with feedback."""

    @property
    def questions(self) -> Sequence[Any]:
        """The training questions; opaque to the trainer."""
        ...

    @property
    def control_ids(self) -> Sequence[int]:
        """Token ids of the protocol's tags, as far as a tag is one token."""
        ...

    def held_out(self, draw: random.Random, count: int) -> list[Any]:
        """Draw questions to measure on: none that is trained on, or new draws from the same distribution."""
        ...

    def episode(self, question: Any) -> Episode:  # noqa: ANN401 - a question is the environment's own
        """Begin an episode."""
        ...

    def feedback(self, episodes: Sequence[Any]) -> list[list[int]]:
        """Answer the newest action of each episode, all in one call.

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
        episodes: The episode of each row.
        sampler_logprobs: ln of the probability with which each action token was drawn, ``(B, T)``, nats, 0 elsewhere;
            None where tokens were drawn from the policy as it is.
    """

    tokens: Tensor
    mask: Tensor
    rewards: Tensor
    truncated: Tensor
    episodes: Sequence[Episode]
    sampler_logprobs: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A demonstrated response: all tokens from the prompt on, and which of them are action tokens."""

    tokens: list[int]
    is_action: list[bool]


class Policy(nn.Module):
    """A causal language model that is trained: the trainer accepts any subclass."""

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Size of the vocabulary."""

    @abstractmethod
    def hidden_states(self, tokens: Tensor) -> Tensor:
        """Return the last hidden state after each token: ``(B, T)`` to ``(B, T, width)``, where the weights are.

        Rows are padded at the end, where no token before it can see the padding.
        """

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Map hidden states ``(..., width)`` to next-token logits ``(..., V)``."""

    @abstractmethod
    def sample(
        self,
        environment: Environment,
        episodes: Sequence[Episode],
        *,
        generator: torch.Generator,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> Rollout:
        """Sample every episode to its end, or to the length of the context.

        Args:
            environment: Answers the actions.
            episodes: Fresh episodes of that environment, one a row; played in place.
            generator: The only source of randomness.
            temperature: Above 0; 1 samples from the policy as it is.
            top_p: Mass of the most probable tokens that are drawn from, in (0, 1]; 1 is all.
        """
