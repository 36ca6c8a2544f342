"""Removes some of the steps of old runs; the steps around their alerts stay."""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, delete, func, or_, select, update

from monitor_server.store.repositories.removed_attempts import removed_attempts
from monitor_server.store.repositories.retention.kept_steps import steps_to_remove, thinning_stride
from monitor_server.store.repositories.retention.silent_runs import is_silent, lock_run
from monitor_server.store.repositories.series.compaction import Compaction
from monitor_server.store.statements import in_parts
from monitor_server.store.tables import alerts, runs, steps

__all__ = ["StepThinning"]

# Steps around alerts are not thinned: an explanation reads about 400 steps before an alert.
KEPT_ALERTS: Final = 64
KEPT_BEFORE: Final = 400
KEPT_AFTER: Final = 64
STEPS_PER_SLICE: Final = 1_000


class StepThinning:
    """Finds and thins the runs whose steps are old."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def with_steps(self, *, silent_since: float, most: int, without: Collection[str] = ()) -> list[str]:
        """Return the silent runs whose steps are not thinned yet, and which can have more than ``most`` steps."""
        is_due = (runs.c.steps_thinned_to <= runs.c.last_step) & (runs.c.last_step >= most)
        query = select(runs.c.id).where(is_silent(silent_since), is_due, runs.c.id.not_in(without))
        return list(self._connection.execute(query).scalars())

    def thin_steps(
        self, run_id: str, *, most: int, silent_since: float | None = None, stride: int | None = None
    ) -> tuple[int, int | None]:
        """Thin some of a run's steps.

        The first of every 2ᵏ step numbers is kept, at most ``most`` of the run, and all steps around its alerts. The
        steps kept of a longer run are among those kept of a shorter one, so that thinning can continue after the run
        has continued.

        Args:
            run_id: The run.
            most: The largest number of steps that are kept.
            silent_since: Nothing is removed if a batch has arrived since then.
            stride: 2ᵏ, as the first slice has returned it; None for the first slice, which counts the steps.

        Returns:
            The number of removed steps, and 2ᵏ if there are more to thin, otherwise None.
        """
        query = select(runs.c.steps_thinned_to, runs.c.last_step)
        row = lock_run(self._connection, query, run_id, silent_since=silent_since)
        if row is None or row.last_step is None or self._connection.execute(removed_attempts(run_id)).first():
            return 0, None
        last = self._connection.execute(select(func.max(steps.c.step)).where(steps.c.run_id == run_id)).scalar()
        last = max(row.last_step, last or 0)
        begin, end = row.steps_thinned_to, last + 1
        if stride is None:
            stride = thinning_stride(self._connection, run_id, thinned_to=begin, last=last, most=most)
        removed = 0
        if stride > 1:
            begin, end = self._next_range(run_id, begin, end)
            others = steps_to_remove(self._connection, run_id, begin, end, stride=stride)
            of_run = (steps.c.run_id == run_id) & (steps.c.step != last) & ~self._around_alerts(run_id)
            for some in in_parts(others):
                removed += self._connection.execute(delete(steps).where(of_run, steps.c.step.in_(some))).rowcount
        if removed:
            Compaction(self._connection).remove_range(run_id, begin, end)
        # A slice of the projector that has read the removed steps is refused, and is computed again.
        thinned: dict[str, Any] = {"steps_thinned_to": end, "revision": runs.c.revision + 1}
        if removed:
            thinned["has_thinned_steps"] = True
        self._connection.execute(update(runs).where(runs.c.id == run_id).values(thinned))
        return removed, stride if end <= last else None

    def _next_range(self, run_id: str, begin: int, end: int) -> tuple[int, int]:
        """Return the range of the next stored steps from ``begin`` on, for one slice."""
        query = (
            select(steps.c.step)
            .where(steps.c.run_id == run_id, steps.c.step >= begin)
            .order_by(steps.c.step)
            .offset(STEPS_PER_SLICE)
            .limit(1)
        )
        following = self._connection.execute(query).scalar()
        return begin, end if following is None else min(end, max(following, begin + 1))

    def _around_alerts(self, run_id: str) -> ColumnElement[bool]:
        query = (
            select(alerts.c.opened_step)
            .where(alerts.c.run_id == run_id, alerts.c.severity != "info")
            .order_by(alerts.c.number.desc())
            .limit(KEPT_ALERTS)
        )
        opened = set(self._connection.execute(query).scalars())
        return or_(steps.c.step < 0, *(steps.c.step.between(step - KEPT_BEFORE, step + KEPT_AFTER) for step in opened))
