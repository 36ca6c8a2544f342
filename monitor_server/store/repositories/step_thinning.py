"""Chooses the steps of a run that thinning keeps: the first of every range of numbers, whatever numbers a trainer uses.

A trainer may count samples, or log every tenth step from the fifth on, and one number may be far beyond all others. So
the ranges of numbers that contain a step are counted, and each such range keeps one.
"""

from collections.abc import Iterable
from itertools import chain, pairwise

from sqlalchemy import Connection, bindparam, func, literal, select

from monitor_server.store.repositories.log.blocks import SPAN
from monitor_server.store.repositories.removed_attempts import is_kept
from monitor_server.store.tables import records, runs, steps

__all__ = ["beyond_first", "first_of_newest", "steps_to_remove", "thinning_stride"]


_OF_ATTEMPT = (records.c.run_id == bindparam("run")) & (records.c.attempt == bindparam("attempt"))
# Without the bounds of the attempt, the index of all steps would be read down to the first step of the run.
_NEWEST = (
    select(steps.c.step)
    .where(
        steps.c.run_id == bindparam("run"),
        steps.c.attempt == bindparam("attempt"),
        steps.c.step > select(func.min(records.c.step)).where(_OF_ATTEMPT).scalar_subquery() - SPAN,
        steps.c.step <= select(func.max(records.c.step)).where(_OF_ATTEMPT).scalar_subquery(),
    )
    .order_by(steps.c.step.desc())
    .offset(bindparam("newer"))
    .limit(1)
)
_LAST_ATTEMPT = select(runs.c.last_attempt).where(runs.c.id == bindparam("run"))
_COUNTS = (
    select(steps.c.attempt, func.count())
    .where(steps.c.run_id == bindparam("run"), is_kept(steps.c.attempt, bindparam("run")))
    .group_by(steps.c.attempt)
    .order_by(steps.c.attempt.desc())
)


def first_of_newest(connection: Connection, run_id: str, kept: int) -> tuple[int, int] | None:
    """Return attempt and number of the first of a run's newest ``kept`` complete steps; None if it has not as many.

    The steps of an attempt are newer than those of the attempts before, whatever their numbers.
    """
    last = connection.execute(_LAST_ATTEMPT, {"run": run_id}).scalar()
    first = connection.execute(_NEWEST, {"run": run_id, "attempt": last, "newer": kept - 1}).scalar()
    if last is not None and first is not None:
        return last, first
    # One pass over all steps, however often the run began again.
    for attempt, count in connection.execute(_COUNTS, {"run": run_id}):
        if count >= kept:
            asked = {"run": run_id, "attempt": attempt, "newer": kept - 1}
            return attempt, connection.execute(_NEWEST, asked).scalar_one()
        kept -= count
    return None


def beyond_first(numbers: Iterable[int], stride: int) -> list[int]:
    """Return those of ascending step numbers that are not the first of their range of ``stride`` numbers."""
    return [number for before, number in pairwise(numbers) if before // stride == number // stride]


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
