"""Copies of a step's arrays, made as cheaply as can be: into memory that has been used before.

Memory fresh from the system is given page by page, when it is first written, and training would wait for each.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays.host import HOST

__all__ = ["Copies", "CopyPool"]

# What `Rollouts` takes beside arrays. A vocabulary is long, and never changes.
LISTS = frozenset({"control_ids", "texts"})
NO_ARRAYS = LISTS | {"check", "clip_range", "copy", "decode", "library", "trained", "vocabulary"}
# Smaller ones are given from memory that Python already has.
LARGE_BYTES = 64 << 10
ALIGNMENT = 64  # a line of the processor's cache
# What a step or two need; one more than that waits only if steps come faster than they are packed.
SPARE_BUFFERS = 4


class Copies(msgspec.Struct, frozen=True):
    """The arguments of `Rollouts`, unread, with arrays that nobody writes to.

    Attributes:
        others: The arguments that were not copied, by name.
        copied: Shape, dtype and memory of each array, and where in the memory it begins, as `numpy.ndarray` takes them.
        nbytes: Bytes that the arrays take.
        release: Lets the memory be used again; nothing may read the arrays any more.
    """

    others: dict[str, Any]
    copied: dict[str, tuple[Any, ...]]
    nbytes: int
    release: Callable[[], None]

    @property
    def arguments(self) -> dict[str, Any]:
        """Give the arguments by name. Objects were not copied: an array of them is refused for its kind anyway."""
        return self.others | {
            name: np.empty(copy[0], copy[1]) if copy[1].hasobject else np.ndarray(*copy)
            for name, copy in self.copied.items()
        }


class CopyPool:
    """Copies arrays in the training thread, and takes the memory back from another."""

    def __init__(self) -> None:
        self._spare: deque[NDArray[np.uint8]] = deque(maxlen=SPARE_BUFFERS)

    def copied(self, given: Mapping[str, Any]) -> Copies:
        """Copy every array; its shape and kind are looked at later, and an array is made of the copy then.

        Args:
            given: The arguments of `Rollouts`, all arrays in this process's memory. With ``copy=False`` they are held.

        Raises:
            RolloutsError: If one is no rectangular array.
        """
        if not given.get("copy", True):
            nbytes = 0
            for value in given.values():
                nbytes += getattr(value, "nbytes", 0)
            return Copies({**given}, {}, nbytes, _nothing)
        others: dict[str, Any] = {}
        copied: dict[str, tuple[Any, ...]] = {}
        large = []
        size = held = 0
        for name, value in given.items():
            if value is None or name in NO_ARRAYS:
                others[name] = tuple(value) if value is not None and name in LISTS else value
                continue
            array = value if type(value) is np.ndarray else HOST.taken(name, value)
            nbytes = array.nbytes
            held += nbytes
            if nbytes < LARGE_BYTES:
                # numpy's own copies let go of the interpreter, and wait for it where another thread took it meanwhile.
                copied[name] = array.shape, array.dtype, array.tobytes()
            else:
                large.append((name, array, size))
                size += -(-nbytes // ALIGNMENT) * ALIGNMENT
        if not large:
            return Copies(others, copied, held, _nothing)
        buffer = self._buffer(size)
        for name, array, offset in large:
            copied[name] = place = array.shape, array.dtype, buffer, offset
            if not array.dtype.hasobject:
                np.ndarray(*place)[...] = array
        return Copies(others, copied, held, partial(self._spare.append, buffer))

    def _buffer(self, size: int) -> NDArray[np.uint8]:
        try:
            buffer = self._spare.pop()
        except IndexError:
            return np.empty(size, np.uint8)
        return buffer if len(buffer) >= size else np.empty(size, np.uint8)


def _nothing() -> None:
    """Give nothing back: the memory is Python's own, or the trainer's."""
