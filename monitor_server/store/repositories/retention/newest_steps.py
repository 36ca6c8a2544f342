"""Finds the first of the newest steps of a run, whose raw records are kept."""

from sqlalchemy import Connection, bindparam, func, select

from monitor_server.store.repositories.log.blocks import SPAN
from monitor_server.store.repositories.removed_attempts import is_kept
from monitor_server.store.tables import records, runs, steps

__all__ = ["first_of_newest"]

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
