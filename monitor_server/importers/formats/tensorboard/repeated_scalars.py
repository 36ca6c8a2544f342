"""Reads cycles of records with the same simple scalars at every step, many cycles at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from monitor_server.importers.formats.tensorboard.crc32c import byte_tables, mask, masked_crc32c, register_of_zeros
from monitor_server.importers.formats.tensorboard.event_records import FOOTER_BYTES, HEADER_BYTES, decode_steps

__all__ = ["CycleScalars", "ScalarCycle"]

TIME, STEP = HEADER_BYTES + 1, HEADER_BYTES + 10  # the places of the time and the step of a simple scalar in its record
LENGTH_BYTES, TIME_BYTES, FLOAT_BYTES = 8, 8, 4
CONTINUES = 0x80  # the bit of a varint's byte that is set if another byte follows


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleScalars:
    """The scalars of some cycles, each array of shape ``(cycles, records of a cycle)``."""

    steps: NDArray[np.int64]
    values: NDArray[np.float32]
    times: NDArray[np.float64]


class ScalarCycle:
    """A cycle of records that differs from the cycle before only in time, step, value and checksum.

    A following cycle is recognised without reading its records: all its other bytes equal those of the first cycle. Of
    a checksum only the part of the differing bytes is computed, because a CRC is linear over XOR.

    Args:
        records: The records of one cycle, header and footer included, each a simple scalar.
        step_bytes: The number of bytes of a step, which is the same in all records.
    """

    def __init__(self, records: Sequence[bytes], step_bytes: int) -> None:
        sizes = np.array([len(record) for record in records])
        self._first = np.frombuffer(b"".join(records), np.uint8)
        self._begins = np.cumsum(sizes) - sizes
        self._footers = self._begins + sizes - FOOTER_BYTES
        self._tables = np.concatenate(byte_tables(int(sizes.max())))
        # The places and sizes of a record's differing bytes: time, step, value, checksum.
        self._parts = (
            (self._begins + TIME, TIME_BYTES),
            (self._begins + STEP, step_bytes),
            (self._footers - FLOAT_BYTES, FLOAT_BYTES),
            (self._footers, FOOTER_BYTES),
        )
        differs = np.zeros(len(self._first), np.bool_)
        for begins, size in self._parts:
            differs[_columns(begins, size)] = True
        self._same = np.where(differs, 0, 0xFF).astype(np.uint8)  # the bits that are the same in all cycles
        self._same[_columns(*self._parts[1])] = CONTINUES
        self._constant = self._registers(np.where(differs, 0, self._first))

    @classmethod
    def of(cls, records: Sequence[bytes], step_bytes: Sequence[int]) -> Self | None:
        """Return the cycle of some simple scalars; None if their steps differ in size or a checksum is wrong."""
        if len(set(step_bytes)) != 1:
            return None
        cycle = cls(records, step_bytes[0])
        return cycle if cycle._is_whole() else None

    @property
    def size(self) -> int:
        """The bytes of one cycle."""
        return len(self._first)

    def read(self, buffer: bytes, position: int, last: int) -> CycleScalars | None:
        """Return the scalars of the undamaged cycles that begin at ``position``; None if there is none.

        Args:
            buffer: Bytes of the file.
            position: The beginning of a cycle.
            last: The last place at which a record may begin.
        """
        count = (last - position) // self.size
        if count <= 0:
            return None
        cycles = np.frombuffer(buffer, np.uint8, count * self.size, position).reshape(count, self.size)
        cycles = cycles[: _count_first(((cycles ^ self._first) & self._same) == 0)]
        times, steps, values, stored = (
            cycles.take(_columns(begins, size), axis=1).reshape(len(cycles), len(begins), size)
            for begins, size in self._parts
        )
        whole = _count_first(self._checksums((times, steps, values)) == stored.view("<u4")[..., 0])
        if not whole:
            return None
        return CycleScalars(
            steps=decode_steps(steps[:whole].reshape(-1, steps.shape[-1])).reshape(whole, -1),
            values=values[:whole].view("<f4")[..., 0],
            times=times[:whole].view("<f8")[..., 0],
        )

    def _is_whole(self) -> bool:
        """Return whether the checksums of the first cycle are correct."""
        lengths = self._first[_columns(self._begins, LENGTH_BYTES)].reshape(-1, LENGTH_BYTES)
        of_lengths = self._first[_columns(self._begins + LENGTH_BYTES, HEADER_BYTES - LENGTH_BYTES)].view("<u4")
        of_events = self._first[_columns(self._footers, FOOTER_BYTES)].view("<u4")
        is_whole = (masked_crc32c(lengths) == of_lengths) & (mask(self._registers(self._first)) == of_events)
        return bool(is_whole.all())

    def _registers(self, content: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """Return the CRC register of each record of one cycle."""
        ends = np.repeat(self._footers, np.diff(self._begins, append=self.size))
        places = np.arange(self.size)
        is_event = (places < ends) & (places >= np.repeat(self._begins, np.diff(self._begins, append=self.size)) + 12)
        parts = np.where(is_event, self._tables.take(np.where(is_event, (ends - 1 - places) * 256 + content, 0)), 0)
        zeros = [register_of_zeros(size) for size in (self._footers - self._begins - HEADER_BYTES).tolist()]
        registers: NDArray[np.uint32] = np.bitwise_xor.reduceat(parts.astype(np.uint32), self._begins) ^ zeros
        return registers.astype(np.uint32)

    def _checksums(self, differing: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint32]:
        """Return the masked checksums of the records, shape ``(cycles, records)``."""
        registers = np.tile(self._constant, (len(differing[0]), 1))
        for part, (begins, size) in zip(differing, self._parts, strict=False):
            for place in range(size):
                # The table of a byte depends on its distance from the end of the Event.
                tables = (self._footers - 1 - begins - place) * 256
                registers ^= self._tables.take(tables + part[..., place])
        return mask(registers)


def _columns(begins: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the places of the ``size`` bytes from each of ``begins`` on, one after another."""
    places: NDArray[np.int64] = (begins[:, None] + np.arange(size)).ravel()
    return places


def _count_first(is_right: NDArray[np.bool_]) -> int:
    """Return the number of completely correct rows before the first other one, shape ``(rows, columns)``."""
    return len(is_right) if is_right.all() else int(is_right.all(axis=1).argmin())
