"""Reads the wire format of Protocol Buffers, as far as event files and W&B's files need it."""

import struct
from collections.abc import Iterator

__all__ = ["MAX_VARINT_BYTES", "fields", "to_signed", "varint"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_VARINT_BYTES = 10


def varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned number that begins at a position, and the position after it.

    Raises:
        ValueError: If it is longer than 10 bytes or the buffer ends within it.
    """
    value = 0
    for place in range(MAX_VARINT_BYTES):
        if position >= len(buffer):
            raise ValueError("a number is cut off")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:  # noqa: PLR2004 - the highest bit is set if more bytes follow
            return value, position
    raise ValueError("a number is longer than 10 bytes")


def to_signed(value: int) -> int:
    """Return the signed 64-bit number with the same bits as an unsigned one."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def fields(buffer: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield a message's fields: number and value; fixed 64 and 32 bits are read as double and float.

    Raises:
        ValueError: If the bytes are not a message.
    """
    position = 0
    while position < len(buffer):
        key, position = varint(buffer, position)
        number, kind = key >> 3, key & 7
        value: int | float | bytes
        if kind == VARINT:
            value, position = varint(buffer, position)
        elif kind == BYTES:
            length, position = varint(buffer, position)
            if position + length > len(buffer):
                raise ValueError("a field is cut off")
            value, position = buffer[position : position + length], position + length
        elif kind in (FIXED64, FIXED32):
            width = 8 if kind == FIXED64 else 4
            if position + width > len(buffer):
                raise ValueError("a field is cut off")
            (value,) = struct.unpack_from("<d" if kind == FIXED64 else "<f", buffer, position)
            position += width
        else:
            raise ValueError(f"wire type {kind} is unknown")
        yield number, value
