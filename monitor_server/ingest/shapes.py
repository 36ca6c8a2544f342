"""The shape of a summary: what must be equal on all ranks of a step for their summaries to merge."""

from collections.abc import Mapping

from monitor_server.errors import SummaryConflict
from trainer_hooks import wire

__all__ = ["Shape", "check_shapes", "summary_shapes"]

Shape = tuple[object, ...]


def summary_shapes(record: wire.Record) -> dict[str, Shape]:
    """Return the shape of each summary of a record."""
    return {name: _shape(summary) for name, summary in record.summaries.items()}


def check_shapes(shapes: Mapping[str, Shape], stored: Mapping[str, Shape], *, step: int, rank: int) -> None:
    """Refuse summaries that cannot be merged with those that are stored of the same step.

    Raises:
        SummaryConflict: At the first that differs.
    """
    for name, shape in shapes.items():
        other = stored.get(name, shape)
        if other != shape:
            raise SummaryConflict(
                f"summaries of {name!r} at step {step} must be alike on all ranks, "
                f"got {_spelled(shape)} from rank {rank} beside {_spelled(other)}"
            )


def _shape(summary: wire.Summary) -> Shape:
    if isinstance(summary, wire.Histogram):
        bins = summary.counts.shape
        return ("histogram", summary.low, summary.high, bins, summary.quantile, summary.scale)
    return (type(summary).__name__.lower(), summary.statistic)


def _spelled(shape: Shape) -> str:
    return " ".join(str(part) for part in shape)
