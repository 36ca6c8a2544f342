"""The records of an event file as arrays: checksums, steps, times and floats of many Events at once."""

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from monitor_server.importers.formats.protobuf import fields, to_signed
from monitor_server.importers.formats.tensorboard.crc32c import masked_crc32c

__all__ = [
    "FOOTER_BYTES",
    "HEADER_BYTES",
    "Scalars",
    "are_whole",
    "decode_steps",
    "gather",
    "hash_rows",
    "is_header",
    "next_header",
    "scalars_of",
    "simple_tag",
]

HEADER_BYTES, FOOTER_BYTES = 12, 4
SEARCH_BYTES = 256  # the size of the first block that is searched for a header
MAX_TAG_BYTES = 1024
# Odd, so that multiplication is reversible; from the golden ratio (Knuth, TAOCP 3, 6.4).
HASH_FACTOR = 0x9E3779B97F4A7C15
# Numbers of fields: Event{1 wall_time, 2 step, 5 summary}, Summary{1 value}, Value{1 tag, 2 simple_value, 8 tensor},
# TensorProto{1 dtype, 4 tensor_content, 5 float_val, 6 double_val}.
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}


class Scalars:
    """The simple scalars of a buffer, each at the place of its record; a tag of -1 means no scalar."""

    def __init__(self, count: int) -> None:
        self._tags = np.full(count, -1)
        self._steps = np.zeros(count, np.int64)
        self._values = np.zeros(count)
        self._times = np.zeros(count)

    def put(
        self,
        places: "NDArray[np.int64] | int",
        tags: "NDArray[np.int64] | int",
        steps: "NDArray[np.int64] | int",
        values: "NDArray[np.float32] | float",
        times: "NDArray[np.float64] | float",
    ) -> None:
        """Store the scalars of the records at some places; a time of NaN means no time."""
        self._tags[places], self._steps[places] = tags, steps
        self._values[places], self._times[places] = values, times

    def between(
        self, begin: int, end: int
    ) -> tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.float64]"]:
        """Return tags, steps, values and times of the scalars among some records."""
        kept = begin + np.flatnonzero(self._tags[begin:end] >= 0)
        return self._tags[kept], self._steps[kept], self._values[kept], self._times[kept]


def gather(buffer: bytes, starts: "NDArray[np.int64]", length: int) -> "NDArray[np.uint8]":
    """Return the records of one length, header and footer included, shape ``(records, bytes)``."""
    windows = np.lib.stride_tricks.sliding_window_view(
        np.frombuffer(buffer, np.uint8), HEADER_BYTES + length + FOOTER_BYTES
    )
    return windows[starts]


def are_whole(records: "NDArray[np.uint8]") -> "NDArray[np.bool_]":
    """Return which records have two correct checksums."""
    stored = np.ascontiguousarray(records[:, -FOOTER_BYTES:]).view("<u4")[:, 0]
    headers = np.ascontiguousarray(records[:, 8:HEADER_BYTES]).view("<u4")[:, 0]
    is_whole: NDArray[np.bool_] = (masked_crc32c(records[:, HEADER_BYTES:-FOOTER_BYTES]) == stored) & (
        masked_crc32c(records[:, :8]) == headers
    )
    return is_whole


def is_header(buffer: bytes, position: int) -> bool:
    """Return whether a record's length and its checksum agree."""
    header = np.frombuffer(buffer[position : position + HEADER_BYTES], np.uint8)
    if len(header) < HEADER_BYTES:
        return False
    return int(masked_crc32c(header[None, :8])[0]) == int.from_bytes(header[8:].tobytes(), "little")


def next_header(buffer: bytes, begin: int) -> int:
    """Return the position of the next header with a correct checksum, or of the last bytes that may begin one."""
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(buffer, np.uint8), HEADER_BYTES)[begin:]
    # Each block is twice the one before, so the cost is that of the distance, also where many places are damaged.
    first, size = 0, SEARCH_BYTES
    while first < len(windows):
        block = windows[first : first + size]
        # A length fits into four bytes, so the other four are 0: few places need a computed checksum.
        likely = np.flatnonzero(~block[:, 4:8].any(axis=1))
        right = masked_crc32c(block[likely][:, :8]) == np.ascontiguousarray(block[likely][:, 8:]).view("<u4")[:, 0]
        if right.any():
            return begin + first + int(likely[right][0])
        first, size = first + size, 2 * size
    return begin + len(windows)


def hash_rows(rows: "NDArray[np.uint8]") -> "NDArray[np.uint64]":
    """Return a number for each row of bytes, equal for equal rows; if different rows share one, compare the bytes."""
    hashes = np.zeros(len(rows), np.uint64)
    for column in np.ascontiguousarray(rows.T):
        hashes = hashes * np.uint64(HASH_FACTOR) + column
    return hashes


def decode_steps(written: "NDArray[np.uint8]") -> "NDArray[np.int64]":
    """Return the signed numbers of varints of one length."""
    steps = np.zeros(len(written), np.uint64)
    for place, column in enumerate(written.T):
        steps |= (column & 0x7F).astype(np.uint64) << np.uint64(7 * place)
    return steps.view(np.int64)


def scalars_of(event: bytes) -> Iterator[tuple[str, int, float, float | None]]:
    """Yield tag, step, value and time of the scalars of any Event."""
    time, step, summary = None, 0, b""
    for number, value in fields(event):
        if number == 1 and isinstance(value, float):
            time = value
        elif number == 2 and isinstance(value, int):  # noqa: PLR2004 - Event.step
            step = to_signed(value)
        elif number == 5 and isinstance(value, bytes):  # noqa: PLR2004 - Event.summary
            summary = value
    for number, value in fields(summary):
        if number == 1 and isinstance(value, bytes):
            tag, scalar, _ = _scalar(value)
            if tag and scalar is not None:
                yield tag, step, scalar, time


def simple_tag(event: bytes, shape: bytes) -> str | None:
    """Return the tag of an Event with one simple scalar whose float is last, otherwise None."""
    content = list(fields(event))
    summary = content[-1][1]
    if [number for number, _ in content] != [1, 2, 5] or not isinstance(summary, bytes):
        return None
    values = [value for number, value in fields(summary) if number == 1 and isinstance(value, bytes)]
    if len(values) != 1 or not shape.endswith(b"\x15"):
        return None
    tag, scalar, is_simple = _scalar(values[0])
    stands_last = is_simple and scalar is not None and struct.pack("<f", scalar) == event[-4:]
    return tag if tag and stands_last else None


def _scalar(value: bytes) -> tuple[str, float | None, bool]:
    """Return a Summary.Value's tag and number, and whether it is a simple float."""
    tag, scalar, is_simple = "", None, False
    for number, content in fields(value):
        if number == 1 and isinstance(content, bytes) and len(content) <= MAX_TAG_BYTES:
            tag = content.decode(errors="replace")
        elif number == 2 and isinstance(content, float):  # noqa: PLR2004 - Value.simple_value
            scalar, is_simple = content, True
        elif number == 8 and isinstance(content, bytes):  # noqa: PLR2004 - Value.tensor
            scalar, is_simple = _tensor(content), False
    return tag, scalar, is_simple


def _tensor(tensor: bytes) -> float | None:
    """Return the single number of a TensorProto; None if it has none or more."""
    dtype, found = 0, None
    for number, content in fields(tensor):
        if number == 1 and isinstance(content, int):
            dtype = content
        elif number == 4 and isinstance(content, bytes) and dtype in DTYPES:  # noqa: PLR2004 - tensor_content
            is_one = len(content) == np.dtype(DTYPES[dtype]).itemsize
            found = float(np.frombuffer(content, DTYPES[dtype])[0]) if is_one else None
        elif number in (5, 6):  # float_val, double_val: packed, or a single number
            if isinstance(content, float):
                found = content
            elif isinstance(content, bytes):
                width = 4 if number == 5 else 8  # noqa: PLR2004 - float_val
                if len(content) == width:
                    (found,) = struct.unpack("<f" if width == 4 else "<d", content)  # noqa: PLR2004 - bytes
    return found
