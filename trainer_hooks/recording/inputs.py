"""Turns what `log_step` is given into what may wait: plain numbers, and token arrays that nobody overwrites.

Runs in the training thread, so it does as little as it can; what is wrong with values is found in the background.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsFloat, TypeAlias, cast

from numpy import ndarray

from trainer_hooks.arrays import HOST, Array, ArrayLibrary, Pending, library_of
from trainer_hooks.arrays.copies import Copies, CopyPool
from trainer_hooks.delivery import Tally
from trainer_hooks.errors import RolloutsError
from trainer_hooks.probes.paired import Paired
from trainer_hooks.recording.candidates import Candidates, Pace, candidates
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals import Reduced, fetch, reduce
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.families.paired import paired as changes_of
from trainer_hooks.signals.reductions import PendingSummary

__all__ = ["Changes", "Inputs", "Tokens"]

Tokens: TypeAlias = Rollouts | Copies | Reduced
Changes: TypeAlias = Sequence[tuple[str, PendingSummary]]


class Inputs:
    """Takes the numbers and the token arrays of a step.

    Args:
        tally: Counts what is no number or no array.
        responses: Most sampled responses of each kind.
        response_seconds: Least time between two steps of which responses are sampled.
        seed: Of those that are drawn at random on a device; elsewhere they are drawn in the background.
    """

    def __init__(self, tally: Tally, *, responses: int = 0, response_seconds: float = 0.0, seed: str = "") -> None:
        self._tally = tally
        self._responses = responses
        self._pace = Pace(responses, response_seconds)
        self._generator = random.Random(seed)  # noqa: S311 - no secret
        self._pool = CopyPool()

    def taken(
        self,
        scalars: dict[str, SupportsFloat],
        rollouts: Rollouts | Mapping[str, Any] | None,
        paired: Sequence[Paired],
        now: float,
    ) -> tuple[dict[str, float], Tokens | None, Changes]:
        """Take a step; what is on a device comes here with one copy, and is reduced before.

        Args:
            scalars: Numbers, or tensors of one element; a copy that may be kept.
            rollouts: The step's, or the arguments for them.
            paired: Scores before and after the update.
            now: Seconds since the epoch.

        Returns:
            The numbers; the tokens, as they came or reduced; what the update did, as `Reduced.pending` is made up.
        """
        # Mostly these are floats alone and arrays in memory. Training has had the processor's caches to itself since
        # the last step, so that code costs by being run at all: there are few calls, and none that need not be.
        numbers, waiting = cast("dict[str, float]", scalars), cast("dict[str, Array]", {})
        for value in scalars.values():
            if value.__class__ is not float:
                numbers, waiting = self._numbers(scalars)
                break
        tokens: Tokens | None = None
        if rollouts is not None:
            try:
                # What `_tokens` does for whatever there is, without the calls that find out what it is.
                if type(rollouts) is dict and type(rollouts.get("logprobs")) is ndarray:
                    tokens = self._pool.copied(rollouts)
                else:
                    tokens = self._tokens(rollouts, now)
            except (RolloutsError, TypeError) as error:
                self._tally.count("rollouts", f"rollouts were left out: {error}")
            except Exception as error:  # noqa: BLE001 - the device may be out of memory; the numbers still go out
                self._tally.swallow(error)
        reduced = tokens if type(tokens) is Reduced else None
        if not (waiting or reduced or paired):
            return numbers, tokens, ()
        try:
            changes: list[tuple[str, PendingSummary]]
            changes = [("", doubt) for scores in paired for doubt in scores.library.doubts]
            changes += [change for scores in paired for change in changes_of(scores).items()]
            alone = [Pending((value.reshape(()),), float) for value in waiting.values()]
            parts = [*alone, *(part for _, part in changes), *(reduced.parts if reduced else ())]
            here = iter(fetch(_device([reduced, *paired], waiting), parts))
            numbers |= {name: next(here).numbers[0] for name in waiting}
            changes = [(name, next(here)) for name, _ in changes]
            return numbers, reduced.with_parts(list(here)) if reduced else tokens, changes
        except Exception as error:  # noqa: BLE001 - the device may be out of memory; the numbers still go out
            self._tally.swallow(error)
        found = self.taken({**waiting}, None, (), now)[0] if waiting and (reduced or paired) else {}
        return numbers | found, None if reduced else tokens, ()

    def numbers(self, scalars: Mapping[str, SupportsFloat]) -> dict[str, float]:
        """Take numbers alone; those on a device come here with one copy, and what is no number is counted."""
        return self.taken({**scalars}, None, (), 0.0)[0]

    def _tokens(self, rollouts: Rollouts | Mapping[str, Any], now: float) -> Tokens:
        """Copy what is in memory, and reduce what is on a device."""
        if not isinstance(rollouts, Rollouts):
            library = rollouts.get("library") or library_of(rollouts.get("logprobs"))
            if library.is_host:
                return self._pool.copied(rollouts)
            rollouts = Rollouts(**rollouts)
        if rollouts.library.is_host:
            return rollouts
        return reduce(rollouts, *([self._candidates] if self._pace.is_due(now) else []))

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
