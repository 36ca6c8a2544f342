"""Turns what `log_step` is given into what may wait: plain numbers, and token arrays that nobody overwrites.

Runs in the training thread, so it does as little as it can; what is wrong with values is found in the background.
"""

import random
from collections.abc import Mapping
from typing import Any, SupportsFloat

from trainer_hooks.arrays import Array, Pending, library_of
from trainer_hooks.arrays.copies import Copies, CopyPool
from trainer_hooks.candidates import Candidates, candidates
from trainer_hooks.delivery import Tally
from trainer_hooks.errors import RolloutsError
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals import Fetched, fetch
from trainer_hooks.signals.action_tokens import ActionTokens

__all__ = ["FLOATS", "Inputs", "Tokens"]

FLOATS = {float}
Tokens = Rollouts | Copies | Fetched


class Inputs:
    """Takes the numbers and the token arrays of a step.

    Args:
        tally: Counts what is no number or no array.
        responses: Most sampled responses of each kind.
        seed: Of those that are drawn at random on a device; elsewhere they are drawn in the background.
    """

    def __init__(self, tally: Tally, *, responses: int = 0, seed: str = "") -> None:
        self._tally = tally
        self._responses = responses
        self._generator = random.Random(seed)  # noqa: S311 - no secret
        self._pool = CopyPool()

    def taken(
        self, scalars: dict[str, SupportsFloat], rollouts: Rollouts | Mapping[str, Any] | None
    ) -> tuple[dict[str, float], Tokens | None]:
        """Give numbers and tokens; what is on a device comes here with one copy, token arrays reduced before.

        Args:
            scalars: Numbers, or tensors of one element; a copy that may be kept.
            rollouts: The step's, or the arguments for them.
        """
        numbers, waiting = self._numbers(scalars)
        tokens: Tokens | None = None
        on_device: Rollouts | None = None
        try:
            if rollouts is not None and not isinstance(rollouts, Rollouts):
                library = rollouts.get("library") or library_of(rollouts.get("logprobs"))
                if library.is_host:
                    tokens = self._pool.copied(rollouts)
                else:
                    on_device = Rollouts(**rollouts)
            elif rollouts is not None and rollouts.library.is_host:
                tokens = rollouts
            else:
                on_device = rollouts
        except (RolloutsError, TypeError) as error:
            self._tally.count("rollouts", f"rollouts were left out: {error}")
        if on_device is not None or waiting:
            fetched, found = self._fetched(on_device, waiting)
            return numbers | found, fetched or tokens
        return numbers, tokens

    def _fetched(
        self, rollouts: Rollouts | None, waiting: Mapping[str, Array]
    ) -> tuple[Fetched | None, dict[str, float]]:
        if rollouts is not None:
            try:
                return fetch(rollouts.library, rollouts, waiting, self._candidates if self._responses else None)
            except Exception as error:  # noqa: BLE001 - the device may be out of memory; the numbers still go out
                self._tally.swallow(error)
        return fetch(library_of(next(iter(waiting.values()), None)), None, waiting)

    def _candidates(self, tokens: ActionTokens) -> Pending[Candidates]:
        rows = len(tokens.lengths)
        drawn = self._generator.sample(range(rows), min(self._responses, rows))
        return candidates(tokens, self._responses, drawn)

    def _numbers(self, scalars: dict[str, SupportsFloat]) -> tuple[dict[str, float], dict[str, Array]]:
        """Give numbers, and those that are still on a device."""
        if set(map(type, scalars.values())) <= FLOATS:
            return scalars, {}  # type: ignore[return-value]
        numbers: dict[str, float] = {}
        waiting: dict[str, Array] = {}
        for name, value in scalars.items():
            try:
                if not library_of(value).is_host and value.numel() == 1:  # type: ignore[attr-defined]
                    waiting[name] = value
                else:
                    # A tensor that needs gradients warns when it is made a float.
                    numbers[name] = float(getattr(value, "detach", value.__float__)())
            except Exception as error:  # noqa: BLE001 - what is no number may raise anything
                self._tally.count("scalars", f"scalar {name!r} must be a number: {error}")
        return numbers, waiting
