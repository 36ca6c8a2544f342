"""Recognises records that differ from a valid one only in their numbers.

A trainer sends the same signals at each step. Once a record is valid, the next one whose bytes are the same in
everything but its step, its time and the eight bytes of each number has the same valid names, and is not decoded.
"""

import struct
from collections.abc import Mapping
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainer_hooks import wire

__all__ = ["Head", "Layouts"]

# One for each number of bytes. A trainer has a few; each takes a few times its bytes.
MAX_LAYOUTS = 64
# A smaller record is decoded as fast without a layout, and a larger one is rare.
LEAST_SIGNALS, MOST_SIGNALS = 8, 2_000
ALL_ONES = struct.unpack("<d", b"\xff" * 8)[0]  # a NaN; no byte of it is one of 0.0


Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=wire.LARGEST_INTEGER)]


class Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `wire.Record` that contains only scalars, which stay raw; the fields are in the order of the wire.

    Its whole numbers are valid. Its time may be any number, because no bound of msgspec refuses NaN.
    """

    step: Whole
    seq: Whole | None = None
    time: float | None = None
    policy_version: Whole | None = None
    scalars: msgspec.Raw = msgspec.Raw()


_HEADS = msgspec.msgpack.Decoder(Head)


class _Layout(NamedTuple):
    """The bits that do not belong to a number, the scalars with only these bits (both as one integer), and the names.

    Numpy would release Python's lock for a comparison of this size, and the event loop would wait to get it back.
    """

    fixed_bits: int
    fixed: int
    names: tuple[str, ...]


class Layouts:
    """The layouts of the newest valid records, by the number of bytes of their scalars."""

    def __init__(self) -> None:
        self._layouts: dict[int, _Layout] = {}

    def __len__(self) -> int:
        return len(self._layouts)

    def find(self, raw: msgspec.Raw) -> tuple[Head, tuple[str, ...], bytes] | None:
        """Return the head, names and bytes of a record that has a known layout and the wire's encoding, or None.

        Only the names and the kinds of the fields are checked.
        """
        if not self._layouts:
            return None
        try:
            head = _HEADS.decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
            return None
        names = self.names(head.scalars)
        if names is None:
            return None
        # The encoder writes no field twice and no unknown one.
        encoded = wire.encode(head)
        return (head, names, encoded) if encoded == bytes(raw) else None

    def names(self, scalars: msgspec.Raw) -> tuple[str, ...] | None:
        """Return the names of scalars that have a known layout, or None."""
        packed = memoryview(scalars)
        layout = self._layouts.get(len(packed))
        if layout is None or int.from_bytes(packed, "little") & layout.fixed_bits != layout.fixed:
            return None
        return layout.names

    @staticmethod
    def fits(record: wire.Record) -> bool:
        """Whether a record contains only scalars."""
        return not (record.summaries or record.actions or record.responses or record.data_version is not None)

    def keep(self, scalars: Mapping[str, float]) -> None:
        """Keep the layout of the scalars of a valid record."""
        names = tuple(scalars)
        if LEAST_SIGNALS <= len(names) <= MOST_SIGNALS:
            zeros, ones = (
                np.frombuffer(msgspec.msgpack.encode(dict.fromkeys(names, number)), dtype=np.uint8)
                for number in (0.0, ALL_ONES)
            )
            is_fixed = zeros == ones
            if np.count_nonzero(~is_fixed) == 8 * len(names):
                if len(self._layouts) >= MAX_LAYOUTS:
                    self._layouts.clear()
                fixed_bits = np.where(is_fixed, np.uint8(0xFF), np.uint8(0))
                self._layouts[len(zeros)] = _Layout(_integer(fixed_bits), _integer(zeros & fixed_bits), names)


def _integer(bits: NDArray[np.uint8]) -> int:
    return int.from_bytes(bits.tobytes(), "little")
