"""A step's action tokens laid end to end, with the response and the action each belongs to. Computes no signal."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.rollouts import Rollouts

__all__ = ["ActionTokens"]

Item = TypeVar("Item", bound=np.generic)


@dataclass(frozen=True)
class ActionTokens:
    """The N action tokens of B responses; feedback and padding are gone.

    Attributes:
        rollouts: Where they come from.
        places: Place of each token in the flattened ``(B, T)`` arrays, ascending, shape ``(N,)``.
        response: Response of each token, shape ``(N,)``.
        segment: Action of each token, counted over the whole batch, shape ``(N,)``.
        action: Action of each token, counted from 0 within its response, shape ``(N,)``.
        actions: Number of actions of each response, shape ``(B,)``.
        lengths: Number of action tokens of each response, shape ``(B,)``.
    """

    rollouts: Rollouts
    places: NDArray[np.intp]
    response: NDArray[np.intp]
    segment: NDArray[np.intp]
    action: NDArray[np.intp]
    actions: NDArray[np.intp]
    lengths: NDArray[np.intp]

    @classmethod
    def of(cls, rollouts: Rollouts) -> "ActionTokens":
        """Find the actions: contiguous runs of True in each row of the mask."""
        mask = rollouts.mask
        begins = mask.copy()
        begins[:, 1:] &= ~mask[:, :-1]
        actions = np.count_nonzero(begins, axis=1)
        places = np.flatnonzero(mask)
        response = places // mask.shape[1]
        segment = np.cumsum(begins.ravel()[places]) - 1
        return cls(
            rollouts=rollouts,
            places=places,
            response=response,
            segment=segment,
            action=segment - (np.cumsum(actions) - actions)[response],
            actions=actions,
            lengths=np.count_nonzero(mask, axis=1),
        )

    def take(self, array: NDArray[Item]) -> NDArray[Item]:
        """Give a ``(B, T)`` array at the action tokens, shape ``(N,)``."""
        return array.ravel()[self.places]

    def observed(self, array: NDArray[Item]) -> NDArray[Item]:
        """Give what counts of an array: all of ``(B,)``, the action tokens of ``(B, T)``."""
        return array if array.ndim == 1 else self.take(array)

    def per_response(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Sum token values within each response, shape ``(B,)``."""
        return np.bincount(self.response, weights=values, minlength=len(self.lengths)).astype(np.float64)

    def per_action(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Sum token values within each action, shape ``(number of actions,)``."""
        return np.bincount(self.segment, weights=values, minlength=int(self.actions.sum())).astype(np.float64)

    @cached_property
    def logprobs(self) -> NDArray[np.floating]:
        """Current policy's log-probabilities, shape ``(N,)``, nats."""
        return self.take(self.rollouts.logprobs)

    @cached_property
    def is_correct(self) -> NDArray[np.bool_]:
        """Whether each token belongs to a correct response, shape ``(N,)``."""
        return self.rollouts.correct[self.response]

    @cached_property
    def log_ratio(self) -> NDArray[np.float64] | None:
        """Give ln π_θ − ln π_old of each token, shape ``(N,)``, nats, in float64.

        None where the old log-probabilities are missing, or equal everywhere: on-policy, with one update a rollout,
        the ratio is 1 by construction and everything built on it says nothing.
        """
        if self.rollouts.old_logprobs is None:
            return None
        old = self.take(self.rollouts.old_logprobs)
        if np.array_equal(old, self.logprobs, equal_nan=True):
            return None
        return self.logprobs.astype(np.float64) - old

    @cached_property
    def advantages(self) -> NDArray[np.floating] | None:
        """Advantage of each token, shape ``(N,)``."""
        advantages = self.rollouts.advantages
        if advantages is None:
            return None
        return advantages[self.response] if advantages.ndim == 1 else self.take(advantages)

    @cached_property
    def is_preserved(self) -> NDArray[np.bool_] | None:
        """Whether each response is in the preserving set {A ≥ 0}, shape ``(B,)``; token advantages are averaged."""
        advantages = self.rollouts.advantages
        if advantages is None or self.advantages is None:
            return None
        if advantages.ndim == 1:
            return advantages >= 0
        return (self.per_response(self.advantages) >= 0) & (self.lengths > 0)
