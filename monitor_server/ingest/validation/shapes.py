"""Checks that summaries can be merged: valid counts, and equal shapes on all ranks of a step."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor_server.errors import InvalidRecord, SummaryConflict
from monitor_server.ingest.limits import MAX_HISTOGRAM_BINS
from trainer_hooks import wire

__all__ = ["Shape", "check_shapes", "check_summary", "summary_shapes"]

Shape = tuple[object, ...]


def summary_shapes(record: wire.Record) -> dict[str, Shape]:
    """Return the shape of each summary of a record."""
    return {name: _shape(summary) for name, summary in record.summaries.items()}


def check_shapes(shapes: Mapping[str, Shape], stored: Mapping[str, Shape], *, step: int, rank: int) -> None:
    """Refuse summaries that cannot be merged with the stored ones of the same step.

    Raises:
        SummaryConflict: At the first that differs.
    """
    for name, shape in shapes.items():
        other = stored.get(name, shape)
        if other != shape:
            raise SummaryConflict(
                f"summaries of {name!r} at step {step} must have the same shape on all ranks, "
                f"got {_spell(shape)} from rank {rank} beside {_spell(other)}"
            )


def _shape(summary: wire.Summary) -> Shape:
    if isinstance(summary, wire.Histogram):
        bins = summary.counts.shape
        return ("histogram", summary.low, summary.high, bins, summary.quantile, summary.scale)
    return (type(summary).__name__.lower(), summary.statistic)


def _spell(shape: Shape) -> str:
    return " ".join(str(part) for part in shape)


def check_summary(name: str, summary: wire.Summary) -> None:
    """Refuse a summary without a value, and counts that are not possible as counts.

    Such counts lead to divisions by zero when they are merged on another rank.

    Raises:
        InvalidRecord: If there are impossible counts.
        ArithmeticError: If the summary has no value.
    """
    if isinstance(summary, wire.Moments):
        count = summary.count
        if not (math.isfinite(count) and count == int(count) and 0 <= count <= wire.LARGEST_INTEGER):
            raise InvalidRecord(f"count of {name!r} must be a whole number in 0 to 2**53, got {count}")
        if summary.sum_squares < 0:
            raise InvalidRecord(f"sum_squares of {name!r} must be at least 0 or NaN, got {summary.sum_squares}")
    elif isinstance(summary, wire.Histogram):
        if not (math.isfinite(summary.high - summary.low) and summary.low < summary.high):
            raise InvalidRecord(
                f"low and high of {name!r} must be finite, low below high, got {summary.low} and {summary.high}"
            )
        if not 0 <= summary.quantile <= 1:
            raise InvalidRecord(f"quantile of {name!r} must lie in 0 to 1, got {summary.quantile}")
        counts = summary.counts.to_numpy()
        if counts.ndim != 1 or counts.size > MAX_HISTOGRAM_BINS:
            raise InvalidRecord(
                f"counts of {name!r} must have a shape (bins,) of at most {MAX_HISTOGRAM_BINS} bins, "
                f"got {summary.counts.shape}"
            )
        if not math.isfinite((summary.high - summary.low) * counts.size):
            raise InvalidRecord(
                f"low and high of {name!r} must be closer together, so that {counts.size} times their distance is a "
                f"finite number, got {summary.low} and {summary.high}"
            )
        is_whole = _is_whole(counts)
        if not is_whole.all():
            raise InvalidRecord(f"counts of {name!r} must be whole numbers in 0 to 2**53, got {counts[~is_whole][0]}")
    summary.value()


def _is_whole(counts: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of the counts are possible whole numbers, shape ``(bins,)``."""
    if counts.dtype.kind in {"b", "u"}:
        return np.ones(counts.shape, dtype=np.bool_)
    counts = counts.astype(np.float64)
    is_whole: NDArray[np.bool_] = np.isfinite(counts) & (counts >= 0) & (counts <= wire.LARGEST_INTEGER)
    is_whole[is_whole] = counts[is_whole] == np.floor(counts[is_whole])
    return is_whole
