"""Leaves out of a signal the steps that the run has gone back behind."""

from bisect import bisect_right

from dashboard.collector_client.types.runs import SeriesItem

__all__ = ["not_replaced"]


def not_replaced(series: SeriesItem, last_step: int | None) -> SeriesItem:
    """Return a series up to the newest step of its run; all of it where the run has no step.

    After a rewind, the steps beyond it are those of an attempt that the run has given up: they are neither its newest
    values, nor later in time, nor a part of its length.
    """
    if last_step is None:
        return series
    count = bisect_right(series["steps"], last_step)
    times, counts = series.get("times"), series.get("counts")
    return {
        "signal": series["signal"],
        "steps": series["steps"][:count],
        "values": series["values"][:count],
        "times": None if times is None else times[:count],
        "counts": None if counts is None else counts[:count],
    }
