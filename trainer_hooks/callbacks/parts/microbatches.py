"""Joins the token arrays of the microbatches that one optimiser step is made of. Knows no framework."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer_hooks.arrays import Array, ArrayLibrary
from trainer_hooks.errors import RolloutsError
from trainer_hooks.rollouts import Rollouts

__all__ = ["Microbatches"]

TOGETHER = ("clip_range", "control_ids", "decode", "vocabulary")  # said of all responses
NO_ARRAYS = {*TOGETHER, "is_checked", "library", "texts", "trained"}


class Microbatches:
    """Takes the token arrays of microbatches, and gives those of the step; waits for no device."""

    def __init__(self) -> None:
        self._taken: list[Rollouts | Mapping[str, Any]] = []
        self._library: ArrayLibrary | None = None  # the device that holds them

    def add(self, rollouts: Rollouts | Mapping[str, Any], *, is_last: bool) -> None:
        """Take a microbatch.

        Args:
            rollouts: Its responses, or the arguments for them, which are copied as `Rollouts` copies; those of a step
                that is one microbatch are held as they came.
            is_last: Whether the step ends with it.

        Raises:
            RolloutsError: If the arguments contradict each other.
        """
        if isinstance(rollouts, Mapping) and (self._taken or not is_last):
            # Holding what came would hold on to the graph behind it, and to arrays that the loop may overwrite.
            try:
                rollouts = Rollouts(**{"library": self._library, **rollouts, "check": False})
            except TypeError as error:  # names that there are not, or that are missing
                raise RolloutsError(str(error)) from error
            self._library = None if rollouts.library.is_host else rollouts.library
        self._taken.append(rollouts)

    def joined(self) -> Rollouts | Mapping[str, Any] | None:
        """Give the step's, None where there are none, and forget them."""
        taken = self.forget()
        rollouts = [part for part in taken if isinstance(part, Rollouts)]
        return _joined(rollouts) if len(rollouts) > 1 else next(iter(taken), None)

    def forget(self) -> list[Rollouts | Mapping[str, Any]]:
        """Forget all, and give what it was."""
        taken, self._taken, self._library = self._taken, [], None
        return taken


def _joined(microbatches: Sequence[Rollouts]) -> Rollouts:
    """Lay microbatches end to end, padded to the longest; what not all of them have is left out."""
    first = microbatches[0]
    xp = first.library.xp
    length = max(part.logprobs.shape[1] for part in microbatches)
    arguments: dict[str, Any] = {name: getattr(first, name) for name in TOGETHER}
    for name in set(Rollouts.__slots__) - NO_ARRAYS:
        arrays = [getattr(part, name) for part in microbatches]
        if all(array is not None for array in arrays):
            arguments[name] = xp.concat([_padded(array, length, xp) for array in arrays])
    if all(part.texts is not None for part in microbatches):
        arguments["texts"] = [text for part in microbatches for text in part.texts or ()]
    if all(part.trained == first.trained for part in microbatches):
        arguments["trained"] = first.trained
    # What the values contradict is found where the signals are computed, out of training's way.
    return Rollouts(**arguments, check=False, copy=False, library=first.library)


def _padded(array: Array, length: int, xp: Any) -> Array:
    if array.ndim == 1 or array.shape[1] == length:
        return array
    filling = xp.broadcast_to(xp.zeros_like(array[:, :1]), (len(array), length - array.shape[1]))
    return xp.concat([array, filling], axis=1)
