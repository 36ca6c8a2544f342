"""Concatenates the token arrays of the microbatches that one optimiser step is made of. Depends on no framework."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer_hooks.arrays import Array, ArrayLibrary
from trainer_hooks.errors import RolloutsError
from trainer_hooks.rollouts import Rollouts

__all__ = ["Microbatches", "concatenate_arrays"]

PER_STEP = ("clip_range", "control_ids", "decode", "vocabulary")  # one value for all responses
NO_ARRAYS = {*PER_STEP, "is_checked", "library", "texts", "trained"}


class Microbatches:
    """Collects the token arrays of microbatches, and returns those of the step; never waits for a device."""

    def __init__(self) -> None:
        self._rollouts: list[Rollouts | Mapping[str, Any]] = []
        self._library: ArrayLibrary | None = None  # the device that holds them

    def add(self, rollouts: Rollouts | Mapping[str, Any], *, is_last: bool) -> None:
        """Add a microbatch.

        Args:
            rollouts: Its responses, or the arguments of `Rollouts`, which are copied as `Rollouts` copies them. If the
                step is a single microbatch, they are kept as they are.
            is_last: Whether the step ends with it.

        Raises:
            RolloutsError: If the arguments contradict each other.
        """
        if isinstance(rollouts, Mapping) and (self._rollouts or not is_last):
            # A reference would keep the autograd graph alive, and see what the loop overwrites.
            try:
                rollouts = Rollouts(**{"library": self._library, **rollouts, "check": False})
            except TypeError as error:  # unknown names, or missing ones
                raise RolloutsError(str(error)) from error
            self._library = None if rollouts.library.is_host else rollouts.library
        self._rollouts.append(rollouts)

    def concatenate(self) -> Rollouts | Mapping[str, Any] | None:
        """Return the step's responses, None where there are none, and clear."""
        added = self.clear()
        rollouts = [part for part in added if isinstance(part, Rollouts)]
        return _concatenate(rollouts) if len(rollouts) > 1 else next(iter(added), None)

    def clear(self) -> list[Rollouts | Mapping[str, Any]]:
        """Remove all microbatches, and return them."""
        added, self._rollouts, self._library = self._rollouts, [], None
        return added


def concatenate_arrays(microbatches: Sequence[Mapping[str, Array]], xp: Any) -> dict[str, Array]:
    """Concatenate microbatches along responses, padded with 0 to the longest; keep only arrays that all of them have.

    Args:
        microbatches: Arrays by name, shape ``(B,)`` or ``(B, T)``; B and T may differ between microbatches.
        xp: The library of the arrays, numpy or torch.

    Returns:
        Arrays by name, shape ``(Σ B,)`` or ``(Σ B, max T)``; the arrays of a single microbatch are not changed.
    """
    if len(microbatches) <= 1:
        return dict(*microbatches)
    common = set.intersection(*(set(microbatch) for microbatch in microbatches))
    return {name: _concatenate_rows([microbatch[name] for microbatch in microbatches], xp) for name in common}


def _concatenate(microbatches: Sequence[Rollouts]) -> Rollouts:
    """Concatenate microbatches, without the arrays that some of them lack."""
    first = microbatches[0]
    arguments: dict[str, Any] = {name: getattr(first, name) for name in PER_STEP}
    names = set(Rollouts.__slots__) - NO_ARRAYS
    arguments |= concatenate_arrays(
        [{name: getattr(part, name) for name in names if getattr(part, name) is not None} for part in microbatches],
        first.library.xp,
    )
    if all(part.texts is not None for part in microbatches):
        arguments["texts"] = [text for part in microbatches for text in part.texts or ()]
    if all(part.trained == first.trained for part in microbatches):
        arguments["trained"] = first.trained
    # The computation of signals, outside the training thread, finds values that contradict each other.
    return Rollouts(**arguments, check=False, copy=False, library=first.library)


def _concatenate_rows(arrays: Sequence[Array], xp: Any) -> Array:
    if arrays[0].ndim == 1:
        return xp.concat([*arrays])
    length = max(array.shape[1] for array in arrays)
    return xp.concat([_pad(array, length, xp) for array in arrays])


def _pad(array: Array, length: int, xp: Any) -> Array:
    if array.shape[1] == length:
        return array
    padding = xp.broadcast_to(xp.zeros_like(array[:, :1]), (len(array), length - array.shape[1]))
    return xp.concat([array, padding], axis=1)
