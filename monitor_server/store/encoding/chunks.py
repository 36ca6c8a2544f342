"""Signals of many steps as compressed columns, with summaries of short blocks for charts that show them all.

A chunk contains the newest attempt's value of every step in a range. Unobserved steps contain the mark
`step_signals.ABSENT`. A block is 64 rows of a chunk. Its summary contains its least and its largest value, the places
of both and of the first NaN, and the number and the mean of its finite values.
"""

import struct
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from monitor_server.store.encoding.step_signals import ABSENT, BITS, FLOAT

__all__ = [
    "BLOCK_ROWS",
    "DAMAGE",
    "SUMMARY",
    "Points",
    "decode_floats",
    "decode_steps",
    "decode_times",
    "encode_column",
    "encode_floats",
    "encode_steps",
    "encode_times",
    "read_extremes",
    "read_means",
    "read_values",
    "summarise",
]

BLOCK_ROWS = 64
NOWHERE = np.uint16(0xFFFF)
# Some earlier versions stored zero for the number and the mean; others counted the values that are not finite, too.
SUMMARY = np.dtype(
    [
        ("count", "<u2"),
        ("at_minimum", "<u2"),
        ("at_maximum", "<u2"),
        ("at_nan", "<u2"),
        ("minimum", "<f8"),
        ("maximum", "<f8"),
        ("mean", "<f8"),
    ]
)
STEP = np.dtype("<i8")
# A compressed blob begins with the byte 0x28 of zstd.
REGULAR_MARK = b"r"
GROUPED_MARK = b"g"
_REGULAR = struct.Struct("<qqq")  # first step, stride, count
_thread = threading.local()
# A chunk has a thousand rows of 8 bytes. One damaged bit can let a blob declare any size.
MAX_BLOB_BYTES = 2**20
DAMAGE = (zstandard.ZstdError, ValueError)
"""The errors that decoding raises for damaged bytes."""


class Points(NamedTuple):
    """The places of some rows and the values there; ``counts`` if a value is the mean of so many finite values."""

    places: NDArray[np.int64]
    values: NDArray[np.float64]
    counts: NDArray[np.int64] | None = None


def encode_steps(steps: NDArray[np.int64]) -> bytes:
    """Encode ascending step numbers: first, stride and count if they are regular, otherwise their differences."""
    differences = np.diff(steps)
    if len(steps) and (len(steps) == 1 or (differences == differences[0]).all()):
        stride = int(differences[0]) if len(differences) else 1
        return REGULAR_MARK + _REGULAR.pack(int(steps[0]), stride, len(steps))
    return zstandard.compress(np.diff(steps, prepend=0).astype(STEP).tobytes())


def decode_steps(encoded: bytes) -> range | NDArray[np.int64]:
    """Decode step numbers: a range if they are regular, otherwise int64 [rows].

    Raises:
        ValueError: If the bytes are damaged.
        zstandard.ZstdError: If the compressed bytes are damaged.
    """
    if encoded[:1] == REGULAR_MARK:
        try:
            first, stride, count = _REGULAR.unpack(encoded[1:])
        except struct.error as error:
            raise ValueError(f"regular steps must have {_REGULAR.size} bytes behind their mark: {error}") from error
        return range(first, first + stride * count, stride)
    return np.cumsum(np.frombuffer(_decompress(encoded), dtype=STEP))


def encode_times(times: NDArray[np.float64]) -> bytes:
    """Encode times as `encode_floats` does, after a mark."""
    return GROUPED_MARK + encode_floats(times)


def decode_times(encoded: bytes) -> NDArray[np.float64]:
    """Decode times, float64 [rows]. Earlier versions wrote no mark; bytes without it are in their usual order."""
    if encoded[:1] == GROUPED_MARK:
        return decode_floats(encoded[1:])
    return np.frombuffer(_decompress(encoded), dtype=FLOAT)


def encode_floats(values: NDArray[np.float64]) -> bytes:
    """Encode float64 values. Their bytes are grouped by significance, which compresses better and decodes faster."""
    return zstandard.compress(values.astype(FLOAT).view(np.uint8).reshape(-1, FLOAT.itemsize).T.tobytes())


def decode_floats(encoded: bytes) -> NDArray[np.float64]:
    """Decode float64 values to the last bit, shape [rows]."""
    planes = np.frombuffer(_decompress(encoded), dtype=np.uint8).reshape(FLOAT.itemsize, -1)
    return np.ascontiguousarray(planes.T).view(FLOAT).reshape(-1)


def _decompress(encoded: bytes) -> bytes:
    """Decompress one blob. Each thread keeps a decompressor, because creating one takes longer than a chunk's blob.

    Raises:
        ValueError: If the blob declares more bytes than a chunk can have.
        zstandard.ZstdError: If its bytes are damaged in another way.
    """
    declared = zstandard.frame_content_size(encoded)
    if declared > MAX_BLOB_BYTES:
        raise ValueError(f"a blob of a chunk must have at most {MAX_BLOB_BYTES} bytes, and declares {declared}")
    decompressor = getattr(_thread, "decompressor", None)
    if decompressor is None:
        decompressor = _thread.decompressor = zstandard.ZstdDecompressor()
    return bytes(decompressor.decompress(encoded))


def encode_column(values: NDArray[np.float64], observed: NDArray[np.bool_]) -> bytes:
    """Encode a signal of a chunk, shape [rows]; unobserved values are marked."""
    bits = np.ascontiguousarray(values, dtype=FLOAT).view(BITS).copy()
    bits[~observed] = ABSENT
    return encode_floats(bits.view(FLOAT))


def read_values(encoded: Sequence[tuple[int, int, bytes]]) -> Points:
    """Decode a signal of some chunks into the places of its observed values, and the values.

    Args:
        encoded: The place of the first row of each chunk, the number of its rows, and the encoded values.

    Raises:
        ValueError: If a chunk does not have as many values as rows.
        zstandard.ZstdError: If the bytes of a chunk are damaged in another way.
    """
    parts = [decode_floats(blob) for _, _, blob in encoded]
    if [len(part) for part in parts] != [rows for _, rows, _ in encoded]:
        raise ValueError("a chunk must have as many values as rows")
    values = np.concatenate(parts)
    places = np.concatenate([offset + np.arange(rows) for offset, rows, _ in encoded])
    observed = values.view(BITS) != ABSENT
    return Points(places[observed], values[observed])


def summarise(values: NDArray[np.float64], observed: NDArray[np.bool_]) -> bytes:
    """Summarise each block of a signal of a chunk."""
    blocks = np.zeros(-(-len(values) // BLOCK_ROWS), dtype=SUMMARY)
    missing = (0, len(blocks) * BLOCK_ROWS - len(values))
    values = np.pad(values, missing).reshape(-1, BLOCK_ROWS)
    observed = np.pad(observed, missing).reshape(-1, BLOCK_ROWS)
    begins = np.arange(len(blocks)) * BLOCK_ROWS
    is_nan = observed & np.isnan(values)
    blocks["at_nan"] = np.where(is_nan.any(axis=1), begins + is_nan.argmax(axis=1), NOWHERE)
    is_number = observed & ~is_nan
    has_numbers = is_number.any(axis=1)
    for name, extreme, other in (("minimum", np.min, np.inf), ("maximum", np.max, -np.inf)):
        found = extreme(np.where(is_number, values, other), axis=1, keepdims=True)
        at = (is_number & (values == found)).argmax(axis=1)
        blocks[name] = np.where(has_numbers, values[np.arange(len(blocks)), at], np.nan)
        blocks[f"at_{name}"] = np.where(has_numbers, begins + at, NOWHERE)
    is_finite = observed & np.isfinite(values)
    blocks["count"] = is_finite.sum(axis=1)
    # Divided before they are summed: the sum of the largest floats is infinite.
    blocks["mean"] = (np.where(is_finite, values, 0.0) / np.maximum(blocks["count"], 1)[:, None]).sum(axis=1)
    return blocks.tobytes()


def read_extremes(summaries: Sequence[tuple[int, int, bytes]]) -> Points | None:
    """Return extremes and first NaNs of the blocks of a signal of some chunks; the input is that of `read_values`.

    Returns:
        None if an extreme is infinite: the summary does not have the largest or the least number beside it.

    Raises:
        ValueError: If the number of rows does not fit a summary.
    """
    blocks, offsets, _ = _read_blocks(summaries)
    if np.isinf(blocks["minimum"]).any() or np.isinf(blocks["maximum"]).any():
        return None
    least, largest, nan = (blocks[name].astype(np.int64) for name in ("at_minimum", "at_maximum", "at_nan"))
    ascends = least <= largest
    places = np.stack([np.minimum(least, largest), np.maximum(least, largest)], axis=1)
    values = np.where(np.stack([ascends, ~ascends], axis=1), blocks["minimum"][:, None], blocks["maximum"][:, None])
    is_there = places != NOWHERE
    is_there[:, 1] &= least != largest  # a single value is both the least and the largest of its block
    places, values = (offsets[:, None] + places)[is_there], values[is_there]
    if (has_nan := nan != NOWHERE).any():
        places = np.append(places, (offsets + nan)[has_nan])
        values = np.append(values, np.full(int(has_nan.sum()), np.nan))
        order = np.argsort(places)
        places, values = places[order], values[order]
    return Points(places, values)


def read_means(summaries: Sequence[tuple[int, int, bytes]]) -> Points | None:
    """Return the mean of the finite values of each block, at the block's last row; the input is that of `read_values`.

    A block without a finite value is left out.

    Returns:
        None if a block with numbers has no mean: its summary is of an earlier version, or all its numbers are infinite.

    Raises:
        ValueError: If the number of rows does not fit a summary.
    """
    blocks, offsets, ends = _read_blocks(summaries)
    has_mean = (blocks["count"] > 0) & np.isfinite(blocks["mean"])
    if ((blocks["at_minimum"] != NOWHERE) & ~has_mean).any():
        return None
    counts = blocks["count"].astype(np.int64)
    return Points((offsets + ends - 1)[has_mean], blocks["mean"][has_mean], counts[has_mean])


def _read_blocks(
    summaries: Sequence[tuple[int, int, bytes]],
) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.int64]]:
    """Return the blocks of some chunks, the place of the first row of each one's chunk, and its end in the chunk."""
    counts = [-(-rows // BLOCK_ROWS) for _, rows, _ in summaries]
    if [len(blob) for _, _, blob in summaries] != [count * SUMMARY.itemsize for count in counts]:
        raise ValueError("a chunk must have a summary for each block of its rows")
    blocks = np.frombuffer(b"".join([blob for _, _, blob in summaries]), dtype=SUMMARY)
    offsets, rows = (np.repeat([each[place] for each in summaries], counts) for place in (0, 1))
    begins = BLOCK_ROWS * (np.arange(len(blocks)) - np.repeat(np.cumsum(counts) - counts, counts))
    ends = np.minimum(begins + BLOCK_ROWS, rows)
    for name in ("at_minimum", "at_maximum", "at_nan"):
        at = blocks[name].astype(np.int64)
        if (((at < begins) | (at >= ends)) & (at != NOWHERE)).any():
            raise ValueError("a summary must name rows of its block")
    return blocks, offsets, ends
