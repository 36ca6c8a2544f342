"""Copies the arrays of a step as cheaply as possible: into memory that was used before.

The kernel maps new memory page by page when it is first written, and training would wait for each page.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from sys import getsizeof
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays.numpy_backend import HOST

__all__ = ["Copies", "CopyPool"]

# The arguments of `Rollouts` that are not arrays. A vocabulary is long and never changes, so it is not copied.
LISTS = frozenset({"control_ids", "texts"})
NO_ARRAYS = LISTS | {"check", "clip_range", "copy", "decode", "library", "trained", "vocabulary"}
# Python has free memory for smaller arrays.
LARGE_BYTES = 64 << 10
ALIGNMENT = 64  # bytes in a line of the processor's cache
# These are enough for the steps that wait at the same time, unless steps arrive faster than they are encoded.
SPARE_BUFFERS = 4


class Copies(msgspec.Struct, frozen=True):
    """The arguments of `Rollouts`, not checked yet, with arrays that nobody writes to.

    Attributes:
        others: The arguments that were not copied, by name.
        copied: Shape, dtype, memory and offset of each array, as arguments of `numpy.ndarray`.
        nbytes: Bytes of the arrays and of the texts.
        release: Makes the memory available again; after this nothing may read the arrays.
    """

    others: dict[str, Any]
    copied: dict[str, tuple[Any, ...]]
    nbytes: int
    release: Callable[[], None]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name. Arrays of objects were not copied; they are refused for their dtype anyway."""
        return self.others | {
            name: np.empty(copy[0], copy[1]) if copy[1].hasobject else np.ndarray(*copy)
            for name, copy in self.copied.items()
        }


class CopyPool:
    """Copies arrays in the training thread; another thread gives their memory back."""

    def __init__(self) -> None:
        self._spare: deque[NDArray[np.uint8]] = deque(maxlen=SPARE_BUFFERS)

    def copy(self, given: Mapping[str, Any]) -> Copies:
        """Copy every array. Shapes and dtypes are checked later, when an array is made of each copy.

        Args:
            given: The arguments of `Rollouts`, all arrays in this process's memory. With ``copy=False`` none is copied.

        Raises:
            RolloutsError: If an argument is not a rectangular array.
        """
        if not given.get("copy", True):
            nbytes = 0
            # A tensor that is not detached would keep the whole graph of its gradients in memory.
            lent = {name: value.detach() if hasattr(value, "detach") else value for name, value in given.items()}
            for name, value in lent.items():
                nbytes += value.nbytes if hasattr(value, "nbytes") else _held_bytes(name, value)
            return Copies(lent, {}, nbytes, _release_nothing)
        others: dict[str, Any] = {}
        copied: dict[str, tuple[Any, ...]] = {}
        large = []
        size = total = 0
        for name, value in given.items():
            if value is None or name in NO_ARRAYS:
                others[name] = _own_copy(name, value)
                total += _held_bytes(name, others[name])
                continue
            array = value if type(value) is np.ndarray else HOST.convert(name, value)
            nbytes = array.nbytes
            total += nbytes
            if nbytes < LARGE_BYTES:
                # numpy's own copy functions release the interpreter, and then wait if another thread has taken it.
                copied[name] = array.shape, array.dtype, array.tobytes()
            else:
                large.append((name, array, size))
                size += -(-nbytes // ALIGNMENT) * ALIGNMENT
        if not large:
            return Copies(others, copied, total, _release_nothing)
        buffer = self._take_buffer(size)
        for name, array, offset in large:
            copied[name] = place = array.shape, array.dtype, buffer, offset
            if not array.dtype.hasobject:
                np.ndarray(*place)[...] = array
        return Copies(others, copied, total, partial(self._spare.append, buffer))

    def _take_buffer(self, size: int) -> NDArray[np.uint8]:
        try:
            buffer = self._spare.pop()
        except IndexError:
            return np.empty(size, np.uint8)
        return buffer if len(buffer) >= size else np.empty(size, np.uint8)


def _own_copy(name: str, value: Any) -> Any:  # noqa: ANN401 - whatever the caller gave
    """Return what the trainer cannot overwrite of a list or of the bounds of a clip range; other values as they are."""
    if name in LISTS and hasattr(value, "__iter__"):  # `Rollouts` refuses by its name what is no list
        return tuple(value)
    if name != "clip_range":
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, list) else value


def _held_bytes(name: str, value: object) -> int:
    """Return about how many bytes the elements of a list hold; those of a vocabulary are shared by all steps."""
    return sum(map(getsizeof, value)) if isinstance(value, list | tuple) and name != "vocabulary" else 0


def _release_nothing() -> None:
    """Do nothing: the memory belongs to Python or to the trainer."""
