"""A step's action tokens laid end to end, with the response and the action each belongs to. Computes no signal."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trainer_hooks.arrays import Array, ArrayLibrary, Runs
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.reductions import PendingSummary, moments_by_column

__all__ = ["ACTIONS_SHOWN", "ActionTokens"]

# Tool-use runs take two to five actions; later ones are too rare at a step for a mean.
ACTIONS_SHOWN = 8


@dataclass(frozen=True)
class ActionTokens:
    """The tokens of B responses, laid end to end: N of them, of which those that count are action tokens.

    On the host only action tokens are laid out; on a device all B·T tokens are, because counting the others out would
    wait for it. So whatever reads token values has to say ``where``: `counted`, or a part of it.

    Attributes:
        rollouts: Where they come from.
        places: Place of each token in the flattened ``(B, T)`` arrays, ascending, shape ``(N,)``.
        counted: Whether each is an action token, shape ``(N,)``.
        response: Response of each token, shape ``(N,)``.
        segment: Action of each token, counted over the whole batch, shape ``(N,)``.
        action: Action of each token, counted from 0 within its response, shape ``(N,)``.
        lengths: Number of action tokens of each response, shape ``(B,)``.
    """

    rollouts: Rollouts
    places: Array
    counted: Array
    response: Array
    segment: Array
    action: Array
    lengths: Array

    @classmethod
    def of(cls, rollouts: Rollouts) -> "ActionTokens":
        """Find the actions: contiguous runs of True in each row of the mask."""
        mask, library = rollouts.mask, rollouts.library
        xp = library.xp
        begins = xp.concat([mask[:, :1], mask[:, 1:] & ~mask[:, :-1]], axis=1)
        actions = begins.sum(axis=1)
        places = library.places(mask)
        response = places // mask.shape[1]
        # Feedback before the first action belongs to none.
        segment = xp.clip(xp.cumsum(begins.reshape(-1)[places], axis=0) - 1, 0, None)
        before = xp.cumsum(actions, axis=0) - actions
        return cls(
            rollouts=rollouts,
            places=places,
            counted=mask.reshape(-1)[places],
            response=response,
            segment=segment,
            action=xp.clip(segment - before[response], 0, None),
            lengths=mask.sum(axis=1),
        )

    @property
    def library(self) -> ArrayLibrary:
        """Where the arrays are."""
        return self.rollouts.library

    @property
    def xp(self) -> Any:  # noqa: ANN401 - a module
        """Give numpy or torch."""
        return self.rollouts.library.xp

    def take(self, array: Array) -> Array:
        """Give a ``(B, T)`` array at the tokens, shape ``(N,)``."""
        return array.reshape(-1)[self.places]

    def observed(self, array: Array) -> tuple[Array, Array | None]:
        """Give what may count of an array, and where it does: all of ``(B,)``, the action tokens of ``(B, T)``."""
        return (array, None) if array.ndim == 1 else (self.take(array), self.counted)

    def per_response(self, values: Array) -> Array:
        """Sum the action tokens' values within each response, shape ``(B,)``, float64."""
        return self._responses.added(self.library.kept(self.library.wide(values), self.counted))

    def per_action(self, values: Array) -> Array:
        """Sum the action tokens' values within each action, shape ``(N,)``, float64; the last of them are empty."""
        return self._actions.added(self.library.kept(self.library.wide(values), self.counted))

    def by_action(self, prefix: str, values: Array, where: Array) -> dict[str, PendingSummary]:
        """Give the moments of the first, second, ... action by name."""
        found = moments_by_column(self.library, values, where, self._cells, ACTIONS_SHOWN + 1)
        return {f"{prefix}{index}": found[index] for index in range(ACTIONS_SHOWN)}

    @cached_property
    def _responses(self) -> Runs:
        return self.library.runs(self.response, len(self.lengths))

    @cached_property
    def _actions(self) -> Runs:
        return self.library.runs(self.segment, len(self.segment))

    @cached_property
    def _cells(self) -> Runs:
        """Give a table of responses and their actions, all after the ones shown in one column."""
        columns = ACTIONS_SHOWN + 1
        cell = self.response * columns + self.xp.clip(self.action, 0, ACTIONS_SHOWN)
        return self.library.runs(cell, len(self.lengths) * columns)

    @cached_property
    def logprobs(self) -> Array:
        """Current policy's log-probabilities, shape ``(N,)``, nats, float64."""
        return self.library.wide(self.take(self.rollouts.logprobs))

    @cached_property
    def old_logprobs(self) -> Array:
        """The old policy's, where given."""
        return self.library.wide(self.take(self.rollouts.old_logprobs))

    @cached_property
    def is_correct(self) -> Array:
        """Whether each is an action token of a correct response, shape ``(N,)``."""
        return self.rollouts.correct[self.response] & self.counted

    @cached_property
    def log_ratio(self) -> Array | None:
        """Give ln π_θ − ln π_old of each token, shape ``(N,)``, nats, float64; None without old log-probabilities."""
        if self.rollouts.old_logprobs is None:
            return None
        return self.logprobs - self.old_logprobs

    @cached_property
    def is_off_policy(self) -> Array:
        """Whether the old log-probabilities differ anywhere.

        On-policy, with one update a rollout, the ratio is 1 by construction and everything built on it says nothing.
        """
        old = self.old_logprobs
        is_same = (self.logprobs == old) | (self.xp.isnan(self.logprobs) & self.xp.isnan(old))
        return (self.counted & ~is_same).any()

    @cached_property
    def advantages(self) -> Array | None:
        """Advantage of each token, shape ``(N,)``."""
        advantages = self.rollouts.advantages
        if advantages is None:
            return None
        return advantages[self.response] if advantages.ndim == 1 else self.take(advantages)

    @cached_property
    def is_preserved(self) -> Array | None:
        """Whether each response is in the preserving set {A ≥ 0}, shape ``(B,)``; token advantages are averaged."""
        advantages = self.rollouts.advantages
        if advantages is None or self.advantages is None:
            return None
        if advantages.ndim == 1:
            return advantages >= 0
        return (self.per_response(self.advantages) >= 0) & (self.lengths > 0)

    @cached_property
    def group(self) -> Array | None:
        """Group of each response, numbered from 0, shape ``(B,)``."""
        return None if self.rollouts.group_ids is None else self.numbered(self.rollouts.group_ids)

    def numbered(self, *keys: Array) -> Array:
        """Number distinct tuples of keys from 0 in their order, shape as each key's, ``(n,)``."""
        order = self.library.order(*keys)
        is_new = self.xp.zeros_like(keys[0][1:] == keys[0][:-1])
        for key in keys:
            is_new = is_new | (key[order][1:] != key[order][:-1])
        numbers = self.xp.zeros_like(order)
        numbers[order[1:]] = self.xp.cumsum(is_new, axis=0)
        return numbers
