"""Packs a step's signals into float64 places, and unpacks them, one step or many at once.

A signal's place is its position among the run's signals. A row ends with the last place known when it was written. An
unobserved place contains `ABSENT`, a NaN with bits that no arithmetic produces. Every other NaN is written as the
ordinary NaN, so that observed and unobserved values always differ.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["ABSENT", "BITS", "FLOAT", "columns", "pack", "unpack"]

ABSENT = np.uint64(0x7FF8_0000_0000_0A85)
FLOAT = np.dtype("<f8")
BITS = np.dtype("<u8")


def pack(signals: Mapping[str, float], positions: Mapping[str, int]) -> bytes:
    """Pack ``signals``, each of which has a position."""
    row = np.full(len(positions), ABSENT, dtype=BITS)
    values = np.fromiter(signals.values(), dtype=FLOAT, count=len(signals))
    values[np.isnan(values)] = np.nan
    row[[positions[name] for name in signals]] = values.view(BITS)
    return row.tobytes()


def unpack(packed: bytes, names: Sequence[str]) -> dict[str, float]:
    """Return the observed signals of one row; ``names`` are the run's signals in the order of their positions."""
    row = np.frombuffer(packed, dtype=BITS)
    observed = np.flatnonzero(row != ABSENT)
    return dict(zip([names[place] for place in observed.tolist()], row.view(FLOAT)[observed].tolist(), strict=True))


def columns(rows: Sequence[bytes], places: Sequence[int]) -> list[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """Return the values of each place, shape [n], and whether they were observed; a row may end before a place."""
    flat = np.frombuffer(b"".join(rows), dtype=BITS)
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows)) // BITS.itemsize
    starts = np.cumsum(lengths) - lengths
    found = []
    for place in places:
        bits = np.full(len(rows), ABSENT, dtype=BITS)
        reaches = lengths > place
        bits[reaches] = flat[starts[reaches] + place]
        found.append((bits.view(FLOAT), bits != ABSENT))
    return found
