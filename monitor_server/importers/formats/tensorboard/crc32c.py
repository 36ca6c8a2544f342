"""CRC-32C as event files use it, computed with numpy over many records of one length at once."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["byte_tables", "mask", "masked_crc32c", "register_of_zeros"]

POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
MASK_DELTA = 0xA282EAD8  # TFRecord: rotate right by 15 bits and add this


def _table() -> NDArray[np.uint32]:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, (values >> 1) ^ np.uint32(POLYNOMIAL), values >> 1)
    return values.astype(np.uint32)


_TABLE = _table()
_AT_END = [_TABLE]
"""The table of the byte that is n bytes before the end, at place n; filled when longer records arrive."""


def byte_tables(length: int) -> list[NDArray[np.uint32]]:
    """Return the table of each byte of a record of ``length``, the last byte's first."""
    while len(_AT_END) < length:
        _AT_END.append(_after_zero(_AT_END[-1]))
    return _AT_END[:length]


def _after_zero(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    shifted: NDArray[np.uint32] = _TABLE[crc & 0xFF] ^ (crc >> 8)
    return shifted


@lru_cache(maxsize=4096)
def register_of_zeros(length: int) -> np.uint32:
    """Return the register after ``length`` zero bytes, which is the contribution of the initial value."""
    crc = np.full(1, 0xFFFFFFFF, dtype=np.uint32)
    for _ in range(length):
        crc = _after_zero(crc)
    return np.uint32(crc[0])


def masked_crc32c(records: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the masked CRC-32C of each record.

    A CRC is linear over XOR: the register is the XOR of the contribution of each byte, which depends on its value and
    its distance from the end, and of the contribution of the initial value. One table for each place is therefore
    enough, and no byte depends on the byte before it.

    Args:
        records: Bytes, shape ``(records, bytes)``.

    Returns:
        ``((crc >> 15) | (crc << 17)) + 0xA282EAD8`` modulo 2³², shape ``(records,)``.
    """
    count, length = records.shape
    crc = np.full(count, register_of_zeros(length), dtype=np.uint32)
    for column, table in zip(np.ascontiguousarray(records.T)[::-1], byte_tables(length), strict=True):
        crc ^= table.take(column)
    return mask(crc)


def mask(registers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the masked checksums that event files store, from the registers after the last byte."""
    crc = ~registers
    return (((crc >> 15) | (crc << 17)) + np.uint32(MASK_DELTA)).astype(np.uint32)
