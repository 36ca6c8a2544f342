"""Copies of a step's arrays, made as cheaply as can be: into memory that has been used before.

Memory fresh from the system is given page by page, when it is first written, and training would wait for each.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays.host import HOST

__all__ = ["Copies", "CopyPool"]

# What `Rollouts` takes beside arrays. A vocabulary is long, and never changes.
LISTS = frozenset({"control_ids", "texts"})
NO_ARRAYS = LISTS | {"check", "clip_range", "library", "trained", "vocabulary"}
# Smaller ones are given from memory that Python already has.
LARGE_BYTES = 64 << 10
ALIGNMENT = 64  # a line of the processor's cache
# What a step or two need; one more than that waits only if steps come faster than they are packed.
SPARE_BUFFERS = 4


class Copies:
    """The arguments of `Rollouts`, unread, with their arrays copied.

    Attributes:
        arguments: By name.
        nbytes: Bytes that the arrays take.
    """

    __slots__ = ("_buffer", "_spare", "arguments", "nbytes")

    def __init__(
        self, arguments: dict[str, Any], nbytes: int, buffer: NDArray[np.uint8] | None, spare: deque[NDArray[np.uint8]]
    ) -> None:
        self.arguments = arguments
        self.nbytes = nbytes
        self._buffer = buffer
        self._spare = spare

    def release(self) -> None:
        """Let the memory be used again; nothing may read the arrays any more."""
        if self._buffer is not None:
            self._spare.append(self._buffer)


class CopyPool:
    """Copies arrays in the training thread, and takes the memory back from another."""

    def __init__(self) -> None:
        self._spare: deque[NDArray[np.uint8]] = deque(maxlen=SPARE_BUFFERS)

    def copied(self, given: Mapping[str, Any]) -> Copies:
        """Copy every array; its shape and kind are looked at later.

        Args:
            given: The arguments of `Rollouts`, all arrays in this process's memory.

        Raises:
            RolloutsError: If one is no rectangular array.
        """
        arguments = {**given}
        large = []
        size = held = 0
        for name, value in given.items():
            if value is None or name in NO_ARRAYS:
                arguments[name] = tuple(value) if value is not None and name in LISTS else value
                continue
            array = value if type(value) is np.ndarray else HOST.taken(name, value)
            held += array.nbytes
            if array.dtype.kind not in "biuf":
                arguments[name] = array.copy()
            elif array.nbytes < LARGE_BYTES:
                # numpy's own copies let go of the interpreter, and wait for it where another thread took it meanwhile.
                arguments[name] = np.ndarray(array.shape, array.dtype, array.tobytes())
            else:
                large.append((name, array, size))
                size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        buffer = self._buffer(size) if large else None
        for name, array, offset in large:
            arguments[name] = copy = np.ndarray(array.shape, array.dtype, buffer, offset)
            copy[...] = array
        return Copies(arguments, held, buffer, self._spare)

    def _buffer(self, size: int) -> NDArray[np.uint8]:
        try:
            buffer = self._spare.pop()
        except IndexError:
            return np.empty(size, np.uint8)
        return buffer if len(buffer) >= size else np.empty(size, np.uint8)
