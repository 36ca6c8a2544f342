"""The values of a step's action tokens, laid end to end as their `ActionLayout` says. Computes no signal."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from trainer_hooks.arrays import Array, ArrayLibrary
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals.action_tokens.layout import ActionLayout
from trainer_hooks.signals.action_tokens.sums import ActionSums

__all__ = ["ActionTokens"]


@dataclass(frozen=True)
class ActionTokens:
    """The values of the action tokens of B responses: N tokens in A actions.

    Attributes:
        rollouts: The arrays of the step.
        layout: Where the actions are in them.
    """

    rollouts: Rollouts
    layout: ActionLayout

    @classmethod
    def of(cls, rollouts: Rollouts) -> Self:
        """Lay the tokens of a step's responses end to end."""
        return cls(rollouts, ActionLayout.of(rollouts.mask, rollouts.library))

    @property
    def library(self) -> ArrayLibrary:
        """Where the arrays are."""
        return self.rollouts.library

    @property
    def xp(self) -> Any:  # noqa: ANN401 - a module
        """The library's own module, numpy or torch."""
        return self.rollouts.library.xp

    @property
    def lengths(self) -> Array:
        """Number of action tokens of each response, shape ``(B,)``."""
        return self.layout.lengths

    @property
    def owner(self) -> Array:
        """Response of each action, shape ``(A,)``."""
        return self.layout.owner

    def take(self, array: Array) -> Array:
        """Return a ``(B, T)`` array at the N tokens, shape ``(N,)``."""
        return array.reshape(-1)[self.layout.places]

    def select_counted(self, array: Array) -> tuple[Array, Array | None]:
        """Return the values that may count and where they do: all of ``(B,)``, the action tokens of ``(B, T)``."""
        return (array, None) if array.ndim == 1 else (self.take(array), self.layout.where)

    @cached_property
    def _sums(self) -> dict[str, ActionSums]:
        """Sums of the log-probabilities, entropies and log-ratios that are given, by name."""
        several = {"logprobs": self.logprobs, "entropies": self.entropies, "log_ratio": self.log_ratio}
        given = {name: values for name, values in several.items() if values is not None}
        return dict(zip(given, ActionSums.of(self.layout, list(given.values())), strict=True))

    @property
    def logprob_sums(self) -> ActionSums:
        """Sums of `logprobs`."""
        return self._sums["logprobs"]

    @property
    def entropy_sums(self) -> ActionSums | None:
        """Sums of `entropies`, where given."""
        return self._sums.get("entropies")

    @property
    def log_ratio_sums(self) -> ActionSums | None:
        """Sums of `log_ratio`, where given."""
        return self._sums.get("log_ratio")

    @cached_property
    def mean_advantages(self) -> Array | None:
        """Advantage of each response, shape ``(B,)``; token advantages are averaged."""
        advantages = self.rollouts.advantages
        if advantages is None or self.advantages is None or advantages.ndim == 1:
            return advantages
        return ActionSums.of(self.layout, [self.advantages])[0].by_response / self.lengths

    @cached_property
    def logprobs(self) -> Array:
        """Current policy's log-probabilities, shape ``(N,)``, nats, float64."""
        return self.library.to_float64(self.take(self.rollouts.logprobs))

    @cached_property
    def old_logprobs(self) -> Array:
        """The old policy's log-probabilities, shape ``(N,)``, nats, float64; only where given."""
        return self.library.to_float64(self.take(self.rollouts.old_logprobs))

    @cached_property
    def entropies(self) -> Array | None:
        """Entropy of the policy at each token, where given, shape ``(N,)``, nats, float64."""
        entropies = self.rollouts.entropies
        return None if entropies is None else self.library.to_float64(self.take(entropies))

    @cached_property
    def log_ratio(self) -> Array | None:
        """Ln π_θ − ln π_old of each token, shape ``(N,)``, nats, float64; None without old log-probabilities."""
        if self.rollouts.old_logprobs is None:
            return None
        return self.logprobs - self.old_logprobs

    @cached_property
    def mismatch(self) -> Array | None:
        """Ln π_trainer − ln π_sampler of each token, shape ``(N,)``, nats, float64; None without the sampler's.

        The trainer's side is the old policy where given. It has the sampler's weights, while the current policy may be
        some updates further.
        """
        rollouts = self.rollouts
        if rollouts.sampler_logprobs is None:
            return None
        trainer = self.logprobs if rollouts.old_logprobs is None else self.old_logprobs
        return trainer - self.library.to_float64(self.take(rollouts.sampler_logprobs))

    @cached_property
    def is_off_policy(self) -> Array:
        """Whether the old log-probabilities differ anywhere.

        On-policy, with one update a rollout, the ratio is 1 by construction, and signals built on it carry no
        information.
        """
        if self.library.is_host and self.log_ratio_sums is not None and self.log_ratio_sums.finite.any():
            return np.True_
        old = self.old_logprobs
        is_same = (self.logprobs == old) | (self.xp.isnan(self.logprobs) & self.xp.isnan(old))
        return (self.layout.counted & ~is_same).any()

    @cached_property
    def advantages(self) -> Array | None:
        """Advantage of each token, shape ``(N,)``."""
        advantages = self.rollouts.advantages
        if advantages is None:
            return None
        return advantages[self.layout.response] if advantages.ndim == 1 else self.take(advantages)

    @cached_property
    def is_preserved(self) -> Array | None:
        """Whether each response is in the preserving set {A ≥ 0}, shape ``(B,)``; token advantages are averaged."""
        advantages = self.mean_advantages
        return None if advantages is None else (advantages >= 0) & self.xp.isfinite(advantages)

    @cached_property
    def group(self) -> Array | None:
        """Group of each response, numbered from 0, shape ``(B,)``."""
        return None if self.rollouts.group_ids is None else self.number_keys(self.rollouts.group_ids)

    def number_keys(self, *keys: Array) -> Array:
        """Number the distinct tuples of keys from 0 in ascending order; keys and numbers have shape ``(n,)``."""
        order = self.library.argsort(*keys)
        is_new = self.xp.zeros_like(keys[0][1:] == keys[0][:-1])
        for key in keys:
            ordered = key[order]
            is_new = is_new | (ordered[1:] != ordered[:-1])
        numbers = self.xp.zeros_like(order)
        numbers[order[1:]] = self.xp.cumsum(is_new, axis=0)
        return numbers
