"""A step's action tokens laid end to end, with the response and the action each belongs to. Computes no signal."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import proxy

import numpy as np

from trainer_hooks.arrays import Array, ArrayLibrary, Runs
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_sums import ActionSums

__all__ = ["ACTIONS_SHOWN", "ActionTokens"]

# Tool-use runs take two to five actions; later ones are too rare at a step for a mean.
ACTIONS_SHOWN = 8


@dataclass(frozen=True)
class ActionTokens:
    """The tokens of B responses, laid end to end: N of them, of which those that count are action tokens.

    On the host only action tokens are laid out; on a device all B·T tokens are, because counting the others out would
    wait for it. So whatever reads token values has to say `where`.

    Attributes:
        rollouts: Where they come from.
        places: Place of each token in the flattened ``(B, T)`` arrays, ascending, shape ``(N,)``.
        counted: Whether each is an action token, shape ``(N,)``.
        response: Response of each token, shape ``(N,)``.
        begins: Whether an action begins at each, shape ``(N,)``.
        lengths: Number of action tokens of each response, shape ``(B,)``.
    """

    rollouts: Rollouts
    places: Array
    counted: Array
    response: Array
    begins: Array
    lengths: Array

    @classmethod
    def of(cls, rollouts: Rollouts) -> "ActionTokens":
        """Find the actions: contiguous runs of True in each row of the mask."""
        mask, library = rollouts.mask, rollouts.library
        xp = library.xp
        begins = xp.concat([mask[:, :1], mask[:, 1:] & ~mask[:, :-1]], axis=1)
        places = library.places(mask)
        return cls(
            rollouts=rollouts,
            places=places,
            counted=mask.reshape(-1)[places],
            response=places // mask.shape[1],
            begins=begins.reshape(-1)[places],
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
        return (array, None) if array.ndim == 1 else (self.take(array), self.where)

    @property
    def where(self) -> Array | None:
        """Which tokens count, shape ``(N,)``, or None where all do: on the host every pass over them costs."""
        return None if self.library.is_host else self.counted

    @cached_property
    def ends(self) -> Array:
        """Where each response's tokens end on the host, shape ``(B,)``; on a device there are others between."""
        return self.xp.cumsum(self.lengths, axis=0)

    @cached_property
    def spans(self) -> Array:
        """Place of each response's first action token in its row, and the one after its last, on the host.

        Shape ``(2, B)``; 0 where there is none.
        """
        is_spoken, width = self.lengths > 0, self.rollouts.mask.shape[1]
        after = self.ends[is_spoken]
        spans = np.zeros((2, len(self.ends)), np.int64)
        spans[0, is_spoken] = self.places[after - self.lengths[is_spoken]] % width
        spans[1, is_spoken] = self.places[after - 1] % width + 1
        return spans

    @cached_property
    def actions(self) -> Runs:
        """The A actions of the batch, in which values of tokens can be added up."""
        return self.library.runs(self.begins)

    @cached_property
    def owner(self) -> Array:
        """Response of each action, shape ``(A,)``."""
        return self.actions.first(self.response)

    @cached_property
    def action_lengths(self) -> Array:
        """Number of tokens of each action, shape ``(A,)``, float64."""
        return self.actions.added(self.counted)

    @cached_property
    def order(self) -> Array:
        """Which action of its response each is, counted from 0, shape ``(A,)``."""
        actions = self.library.integers(self.library.added(self.action_lengths > 0, self.owner, len(self.lengths)))
        before = self.xp.cumsum(actions, axis=0) - actions
        return (self.xp.cumsum(self.xp.ones_like(self.owner), axis=0) - 1 - before[self.owner]).clip(0)

    @cached_property
    def actions_shown(self) -> int:
        """How many actions of a response are shown: on the host, no more than there are."""
        if not self.library.is_host or not len(self.order):
            return ACTIONS_SHOWN
        return min(int(self.order.max()) + 1, ACTIONS_SHOWN)

    @cached_property
    def _sums(self) -> dict[str, ActionSums]:
        """What is there of log-probabilities, entropies and log-ratios, by name."""
        several = {"logprobs": self.logprobs, "entropies": self.entropies, "log_ratio": self.log_ratio}
        there = {name: values for name, values in several.items() if values is not None}
        return dict(zip(there, ActionSums.of(proxy(self), list(there.values())), strict=True))

    @property
    def logprob_sums(self) -> ActionSums:
        """What `logprobs` come to."""
        return self._sums["logprobs"]

    @property
    def entropy_sums(self) -> ActionSums | None:
        """What `entropies` come to."""
        return self._sums.get("entropies")

    @property
    def log_ratio_sums(self) -> ActionSums | None:
        """What `log_ratio` comes to."""
        return self._sums.get("log_ratio")

    @cached_property
    def mean_advantages(self) -> Array | None:
        """Advantage of each response, shape ``(B,)``; token advantages are averaged."""
        advantages = self.rollouts.advantages
        if advantages is None or self.advantages is None or advantages.ndim == 1:
            return advantages
        return ActionSums.of(self, [self.advantages])[0].by_response / self.lengths

    @cached_property
    def logprobs(self) -> Array:
        """Current policy's log-probabilities, shape ``(N,)``, nats, float64."""
        return self.library.wide(self.take(self.rollouts.logprobs))

    @cached_property
    def old_logprobs(self) -> Array:
        """The old policy's, where given."""
        return self.library.wide(self.take(self.rollouts.old_logprobs))

    @cached_property
    def entropies(self) -> Array | None:
        """Entropies of the policy, where given, shape ``(N,)``, nats, float64."""
        entropies = self.rollouts.entropies
        return None if entropies is None else self.library.wide(self.take(entropies))

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
        if self.library.is_host and self.log_ratio_sums is not None and self.log_ratio_sums.finite.any():
            return np.True_
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
        return None if self.mean_advantages is None else self.mean_advantages >= 0

    @cached_property
    def group(self) -> Array | None:
        """Group of each response, numbered from 0, shape ``(B,)``."""
        return None if self.rollouts.group_ids is None else self.numbered(self.rollouts.group_ids)

    def numbered(self, *keys: Array) -> Array:
        """Number distinct tuples of keys from 0 in their order, shape as each key's, ``(n,)``."""
        order = self.library.order(*keys)
        is_new = self.xp.zeros_like(keys[0][1:] == keys[0][:-1])
        for key in keys:
            ordered = key[order]
            is_new = is_new | (ordered[1:] != ordered[:-1])
        numbers = self.xp.zeros_like(order)
        numbers[order[1:]] = self.xp.cumsum(is_new, axis=0)
        return numbers
