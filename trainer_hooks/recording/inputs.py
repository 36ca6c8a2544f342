"""Reads the arguments of `log_step` into data that may wait: plain numbers, and token arrays that nobody overwrites.

This runs in the training thread, so it does as little as possible. Values are checked in the background.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsFloat, TypeAlias, cast

from numpy import complexfloating, ndarray

from trainer_hooks.arrays import HOST, Array, ArrayLibrary, Pending, library_of
from trainer_hooks.arrays.copies import Copies, CopyPool
from trainer_hooks.delivery import DropCounter
from trainer_hooks.errors import RolloutsError
from trainer_hooks.probes.paired import Paired
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.recording.responses.candidates import gather_candidates
from trainer_hooks.recording.responses.selection import Candidates, SamplingInterval
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals import FamiliarTokens, Reduced, fetch, reduce
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.families import instrument
from trainer_hooks.signals.families import paired as paired_family
from trainer_hooks.signals.summary_builders import PendingSummary
from trainer_hooks.text_safety import describe_error, describe_object

__all__ = ["Changes", "InputReader", "Tokens"]

Tokens: TypeAlias = Rollouts | Copies | Reduced
Changes: TypeAlias = Sequence[tuple[str, PendingSummary]]


class InputReader:
    """Reads the numbers and the token arrays of a step.

    Args:
        drops: Counts values that are not numbers or not arrays.
        responses: Most sampled responses of each kind.
        response_seconds: Shortest time between two steps of which responses are sampled.
        seed: Seed of the responses drawn at random on a device; those on the host are drawn in the background.
    """

    def __init__(
        self, drops: DropCounter, *, responses: int = 0, response_seconds: float = 0.0, seed: str = ""
    ) -> None:
        self._drops = drops
        self._responses = responses
        self._interval = SamplingInterval(responses, response_seconds)
        self._generator = random.Random(seed)  # noqa: S311 - no secret
        self._pool = CopyPool()
        self._familiar = FamiliarTokens()

    def copy_scalars(self, scalars: Mapping[str, SupportsFloat]) -> dict[str, Any]:
        """Copy the numbers; what maps no names to numbers is counted, and the rest of the step goes out."""
        try:
            return {**scalars}
        except Exception as error:  # noqa: BLE001 - whatever an object of the user's raises
            given = describe_object(type(scalars))
            detail = f"scalars must be a mapping of names to numbers, got {given}: {describe_error(error)}"
            self._drops.count("scalars", detail)
            return {}

    def list_scores(self, paired: Sequence[Paired], recomputed: Sequence[Recomputed]) -> list[Paired | Recomputed]:
        """Return the scores of a step in one list; if one of the two is no list, both are left out and counted."""
        try:
            return [*(paired or ()), *(recomputed or ())]
        except TypeError as error:
            rule = "paired must be a list of Paired, and recomputed one of Recomputed"
            self._drops.count_error(TypeError(f"{rule}: {error}"))
            return []

    def read(
        self,
        scalars: dict[str, SupportsFloat],
        rollouts: Rollouts | Mapping[str, Any] | None,
        scored: Sequence[Paired | Recomputed],
        now: float,
    ) -> tuple[dict[str, float], Tokens | None, Changes]:
        """Read a step. Arrays on a device are reduced there, and then fetched with one copy.

        Args:
            scalars: Numbers, or tensors of one element; this dictionary belongs to the reader.
            rollouts: The step's rollouts, or the arguments of `Rollouts`.
            scored: Scores before and after the update, and scores that were computed again.
            now: Seconds since the epoch.

        Returns:
            The numbers, the tokens as given or reduced, and the signals of the scores in the form of `Reduced.pending`.
        """
        # Mostly the scalars are floats and the arrays are in memory. Training has filled the processor's caches since
        # the last step, so every call costs; this path makes as few as possible.
        numbers, waiting = cast("dict[str, float]", scalars), cast("dict[str, Array]", {})
        for value in scalars.values():
            if value.__class__ is not float:
                numbers, waiting = self._read_numbers(scalars)
                break
        tokens: Tokens | None = None
        if rollouts is not None:
            try:
                # A short cut: `_read_tokens` does the same, after calls that find out the types of its arguments.
                if type(rollouts) is dict and type(rollouts.get("logprobs")) is ndarray:
                    tokens = self._pool.copy(rollouts)
                else:
                    tokens = self._read_tokens(rollouts, now)
            except (RolloutsError, TypeError) as error:
                self._drops.count_rollouts(error)
            except Exception as error:  # noqa: BLE001 - the device may be out of memory; the numbers still go out
                self._drops.count_error(error)
        reduced = tokens if type(tokens) is Reduced else None
        if not (waiting or reduced or scored):
            return numbers, tokens, ()
        try:
            changes: list[tuple[str, PendingSummary]]
            changes = [("", check) for scores in scored for check in scores.library.deferred_checks]
            changes += [change for scores in scored for change in _compute(scores).items()]
            alone = [Pending((value.reshape(()),), float) for value in waiting.values()]
            parts = [*alone, *(part for _, part in changes), *(reduced.parts if reduced else ())]
            fetched = iter(fetch(_find_device([reduced, *scored], waiting), parts))
            numbers |= {name: next(fetched).numbers[0] for name in waiting}
            changes = [(name, next(fetched)) for name, _ in changes]
            return numbers, reduced.replace_parts(list(fetched)) if reduced else tokens, changes
        except Exception as error:  # noqa: BLE001 - the device may be out of memory; the numbers still go out
            self._drops.count_error(error)
        found = self.read({**waiting}, None, (), now)[0] if waiting and (reduced or scored) else {}
        return numbers | found, None if reduced else tokens, ()

    def read_numbers(self, scalars: Mapping[str, SupportsFloat]) -> dict[str, float]:
        """Read numbers alone. Those on a device are fetched with one copy; values that are not numbers are counted."""
        return self.read({**scalars}, None, (), 0.0)[0]

    def _read_tokens(self, rollouts: Rollouts | Mapping[str, Any], now: float) -> Tokens:
        """Copy arrays in memory, and reduce arrays on a device."""
        if not isinstance(rollouts, Rollouts):
            if not hasattr(rollouts, "items"):
                given = type(rollouts).__name__
                raise RolloutsError(
                    f"rollouts must be a mapping of the arguments of Rollouts, or Rollouts, got {given}"
                )
            library = rollouts.get("library") or library_of(rollouts.get("logprobs"))
            if library.is_host:
                return self._pool.copy(rollouts)
            rollouts = Rollouts(**rollouts)
        if rollouts.library.is_host:
            return rollouts
        more = [self._gather_candidates] if self._interval.is_due(now) else []
        return reduce(rollouts, *more, familiar=self._familiar)

    def _gather_candidates(self, tokens: ActionTokens) -> Pending[Candidates]:
        rows = len(tokens.lengths)
        drawn = self._generator.sample(range(rows), min(self._responses, rows))
        return gather_candidates(tokens, self._responses, drawn)

    def _read_numbers(self, scalars: dict[str, Any]) -> tuple[dict[str, float], dict[str, Array]]:
        """Return the numbers in memory, and the tensors that are still on a device."""
        numbers: dict[str, float] = {}
        waiting: dict[str, Array] = {}
        for name, value in scalars.items():
            if type(value) is float:
                numbers[name] = value
                continue
            try:
                if hasattr(value, "full_tensor"):
                    value = _own_copy(value)  # noqa: PLW2901
                elif isinstance(value, ndarray) and value.size == 1:
                    value = value.reshape(())  # noqa: PLW2901
                elif isinstance(value, complexfloating):
                    value = complex(value)  # noqa: PLW2901 - numpy would warn, and go on with the real part
                if not library_of(value).is_host and value.numel() == 1:
                    waiting[name] = value
                else:
                    # A tensor that needs gradients warns when it is made a float.
                    numbers[name] = float(getattr(value, "detach", value.__float__)())
            except Exception as error:  # noqa: BLE001 - a value that is not a number may raise anything
                self._drops.count(
                    "scalars", f"scalar {describe_object(name)} must be a number: {describe_error(error)}"
                )
        return numbers, waiting


def _own_copy(tensor: Any) -> Any:  # noqa: ANN401 - torch may not be installed
    """Return a distributed tensor's copy in this process.

    Raises:
        TypeError: If each rank holds a part. A part is another number, and a collective is for the trainer to call.
    """
    if not all(placement.is_replicate() for placement in tensor.placements):
        raise TypeError("each rank holds a part of it; log tensor.full_tensor(), which every rank must call")
    return tensor.to_local()


def _compute(scores: Paired | Recomputed) -> dict[str, PendingSummary]:
    return paired_family.compute(scores) if isinstance(scores, Paired) else instrument.compute(scores)


def _find_device(arrays: Iterable[Reduced | Paired | Recomputed | None], waiting: Mapping[str, Array]) -> ArrayLibrary:
    """Return the device that holds any of them, or else the host."""
    libraries = [*(item.library for item in arrays if item is not None), *map(library_of, waiting.values())]
    return next((library for library in libraries if not library.is_host), HOST)
