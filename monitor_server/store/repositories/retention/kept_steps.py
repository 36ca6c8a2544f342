"""Chooses the steps of a run that thinning keeps: the first of every range of numbers, whatever numbers a trainer uses.

A trainer may count samples, or log every tenth step from the fifth on, and one number may be far beyond all others. So
the ranges of numbers that contain a step are counted, and each such range keeps one.
"""

from itertools import chain

from sqlalchemy import Connection, func, literal, select

from monitor_server.store.repositories.step_ranges import beyond_first
from monitor_server.store.tables import steps

__all__ = ["steps_to_remove", "thinning_stride"]


def thinning_stride(connection: Connection, run_id: str, *, thinned_to: int, last: int, most: int) -> int:
    """Return the least power of two for which at most ``most`` ranges of this many numbers contain a step of a run.

    If the run is already thinned, every second range is assumed to have contained a step. Otherwise the stride would
    decrease from slice to slice.

    Args:
        connection: The database.
        run_id: The run.
        thinned_to: Every step below is thinned.
        last: Its highest step.
        most: The largest number of ranges.
    """
    stride = 1
    while last // stride >= most:
        stride *= 2
    while stride > 1:
        thinned = 2 * _count_ranges(connection, run_id, stride, begin=0, end=thinned_to, most=most)
        others = _count_ranges(connection, run_id, stride // 2, begin=thinned_to, end=last + 1, most=most + 1)
        if thinned + others > most:
            break
        stride //= 2
    return stride


def steps_to_remove(connection: Connection, run_id: str, begin: int, end: int, *, stride: int) -> list[int]:
    """Return the steps from ``begin`` on and before ``end`` that are not the first of their range of numbers."""
    of_run = steps.c.run_id == run_id
    query = select(steps.c.step).where(of_run, steps.c.step >= begin, steps.c.step < end).distinct()
    before = connection.execute(select(func.max(steps.c.step)).where(of_run, steps.c.step < begin)).scalar()
    found = connection.execute(query.order_by(steps.c.step)).scalars()
    return beyond_first(found if before is None else chain([before], found), stride)


def _count_ranges(connection: Connection, run_id: str, stride: int, *, begin: int, end: int, most: int) -> int:
    """Return the number of ranges of numbers with a step from ``begin`` on and before ``end``, at most ``most``.

    Each is found by one look into the index, for which a step has one lower bound alone.
    """
    lowest = select(func.min(steps.c.step)).where(steps.c.run_id == run_id, steps.c.step < end)
    first = lowest.where(steps.c.step >= begin).scalar_subquery()
    ranges = select(first.label("step"), literal(1).label("number")).cte("ranges", recursive=True)
    following = lowest.where(steps.c.step >= ranges.c.step - ranges.c.step % stride + stride).scalar_subquery()
    more = select(following, ranges.c.number + 1).where(ranges.c.step.is_not(None), ranges.c.number < most)
    ranges = ranges.union_all(more)
    return connection.execute(select(func.max(ranges.c.number)).where(ranges.c.step.is_not(None))).scalar() or 0
