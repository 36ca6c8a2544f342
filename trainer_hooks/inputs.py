"""Turns what `log_step` is given into what may wait: plain numbers, and token arrays that nobody overwrites.

Runs in the training thread, so it does as little as it can; what is wrong with values is found in the background.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, SupportsFloat, cast

import msgspec

from trainer_hooks.arrays import HOST, Array, ArrayLibrary, Pending, library_of
from trainer_hooks.arrays.copies import Copies, CopyPool
from trainer_hooks.candidates import Candidates, candidates
from trainer_hooks.delivery import Tally
from trainer_hooks.errors import RolloutsError
from trainer_hooks.paired import Paired
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals import Reduced, fetch, reduce
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.paired import paired as changes_of
from trainer_hooks.signals.reductions import PendingSummary

__all__ = ["Inputs", "Taken"]

FLOATS = {float}
Tokens = Rollouts | Copies | Reduced


class Taken(msgspec.Struct, frozen=True):
    """A step that waits for its packing.

    Attributes:
        numbers: By name.
        tokens: Rollouts, as they came or reduced.
        changes: What the update did, summaries by name.
        is_sampled: Whether responses are to be sampled of tokens that are not reduced yet.
    """

    numbers: dict[str, float]
    tokens: Tokens | None
    changes: Sequence[tuple[str, PendingSummary]] = ()
    is_sampled: bool = False


class Inputs:
    """Takes the numbers and the token arrays of a step.

    Args:
        tally: Counts what is no number or no array.
        responses: Most sampled responses of each kind.
        response_seconds: Least time between two steps of which responses are sampled.
        seed: Of those that are drawn at random on a device; elsewhere they are drawn in the background.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        tally: Tally,
        *,
        responses: int = 0,
        response_seconds: float = 0.0,
        seed: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tally = tally
        self._responses = responses
        self._response_seconds = response_seconds
        self._sampled_at = -inf
        self._clock = clock
        self._generator = random.Random(seed)  # noqa: S311 - no secret
        self._pool = CopyPool()

    def taken(
        self,
        scalars: dict[str, SupportsFloat],
        rollouts: Rollouts | Mapping[str, Any] | None = None,
        paired: Sequence[Paired] = (),
    ) -> Taken:
        """Take a step; what is on a device comes here with one copy, and is reduced before.

        Args:
            scalars: Numbers, or tensors of one element; a copy that may be kept.
            rollouts: The step's, or the arguments for them.
            paired: Scores before and after the update.
        """
        # Mostly these are floats alone and arrays in memory, and then every call that is not made counts.
        is_plain = set(map(type, scalars.values())) <= FLOATS
        numbers, waiting = (cast("dict[str, float]", scalars), {}) if is_plain else self._numbers(scalars)
        is_sampled = rollouts is not None and self._is_time_to_sample()
        tokens = None if rollouts is None else self._tokens(rollouts, is_sampled=is_sampled)
        reduced = tokens if type(tokens) is Reduced else None
        if not (waiting or reduced or paired):
            return Taken(numbers, tokens, is_sampled=is_sampled)
        try:
            changes = [change for scores in paired for change in changes_of(scores).items()]
            alone = [Pending((value.reshape(()),), float) for value in waiting.values()]
            parts = [*alone, *(part for _, part in changes), *(reduced.parts if reduced else ())]
            here = iter(fetch(_device([reduced, *paired], waiting), parts))
            numbers |= {name: next(here).numbers[0] for name in waiting}
            changes = [(name, next(here)) for name, _ in changes]
            return Taken(numbers, reduced.with_parts(list(here)) if reduced else tokens, changes, is_sampled)
        except Exception as error:  # noqa: BLE001 - the device may be out of memory; the numbers still go out
            self._tally.swallow(error)
        found = self.taken({**waiting}).numbers if waiting and (reduced or paired) else {}
        return Taken(numbers | found, None if reduced else tokens, is_sampled=is_sampled)

    def _is_time_to_sample(self) -> bool:
        now = self._clock()
        if not self._responses or now - self._sampled_at < self._response_seconds:
            return False
        self._sampled_at = now
        return True

    def _tokens(self, rollouts: Rollouts | Mapping[str, Any], *, is_sampled: bool) -> Tokens | None:
        """Copy what is in memory, and reduce what is on a device."""
        try:
            if not isinstance(rollouts, Rollouts):
                library = rollouts.get("library") or library_of(rollouts.get("logprobs"))
                if library.is_host:
                    return self._pool.copied(rollouts)
                rollouts = Rollouts(**rollouts)
            if rollouts.library.is_host:
                return rollouts
            return reduce(rollouts, *([self._candidates] if is_sampled else []))
        except (RolloutsError, TypeError) as error:
            self._tally.count("rollouts", f"rollouts were left out: {error}")
        except Exception as error:  # noqa: BLE001 - the device may be out of memory; the numbers still go out
            self._tally.swallow(error)
        return None

    def _candidates(self, tokens: ActionTokens) -> Pending[Candidates]:
        rows = len(tokens.lengths)
        drawn = self._generator.sample(range(rows), min(self._responses, rows))
        return candidates(tokens, self._responses, drawn)

    def _numbers(self, scalars: dict[str, SupportsFloat]) -> tuple[dict[str, float], dict[str, Array]]:
        """Give numbers, and those that are still on a device."""
        numbers: dict[str, float] = {}
        waiting: dict[str, Array] = {}
        for name, value in scalars.items():
            if type(value) is float:
                numbers[name] = value
                continue
            try:
                if not library_of(value).is_host and value.numel() == 1:  # type: ignore[attr-defined]
                    waiting[name] = value
                else:
                    # A tensor that needs gradients warns when it is made a float.
                    numbers[name] = float(getattr(value, "detach", value.__float__)())
            except Exception as error:  # noqa: BLE001 - what is no number may raise anything
                self._tally.count("scalars", f"scalar {name!r} must be a number: {error}")
        return numbers, waiting


def _device(arrays: Iterable[Reduced | Paired | None], waiting: Mapping[str, Array]) -> ArrayLibrary:
    """Give the device that holds any of them, or the host."""
    libraries = [*(held.library for held in arrays if held is not None), *map(library_of, waiting.values())]
    return next((library for library in libraries if not library.is_host), HOST)
