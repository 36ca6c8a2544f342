"""Removes whole runs, raw records, responses and steps, a limited number of rows in each transaction.

This module does not decide which data is old; `monitor_server.retention` does. Each method does a bounded amount of
work and states whether there is more.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)

from monitor_server.settings import Deadlines
from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, try_lock
from monitor_server.store.repositories.audit_log import AuditLog
from monitor_server.store.repositories.log.retention import LogRetention
from monitor_server.store.repositories.removed_attempts import REMOVED, kept_attempts, removed_attempts
from monitor_server.store.repositories.responses import Responses
from monitor_server.store.repositories.rules import Rules
from monitor_server.store.repositories.run_status import is_active_column, status_column
from monitor_server.store.repositories.runs import lock_in_order
from monitor_server.store.repositories.saved_views import SavedViews
from monitor_server.store.repositories.series.compaction import Compaction
from monitor_server.store.repositories.silences import Silences
from monitor_server.store.repositories.step_thinning import first_of_newest, steps_to_remove, thinning_stride
from monitor_server.store.statements import in_parts
from monitor_server.store.tables import (
    acknowledgements,
    actions,
    alerts,
    attempts,
    audit_entries,
    chunk_values,
    metadata,
    records,
    responses,
    rules,
    runs,
    steps,
    waiting,
)

__all__ = ["REMOVED_FROM", "Retention"]

# The tables with data of a run; tables that refer to others come first.
_OF_A_RUN = [table for table in reversed(metadata.sorted_tables) if "run_id" in table.c]
# The tables from which rows are removed.
REMOVED_FROM: Final = (*(table.name for table in _OF_A_RUN), runs.name, audit_entries.name)
# Steps around alerts are not thinned: an explanation reads about 400 steps before an alert.
KEPT_ALERTS = 64
KEPT_BEFORE, KEPT_AFTER = 400, 64
STEPS_PER_SLICE = 1_000


class Retention:
    """Finds and removes the data that the settings, or a person, want to have removed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._log = LogRetention(connection)

    def lock(self) -> bool:
        """Return whether this transaction may maintain the database; one collector at a time may."""
        return try_lock(self._connection, AdvisoryLock.MAINTENANCE)

    def begin_deletion(self, run_ids: Collection[str], *, now: float) -> None:
        """Hide runs from all readers and writers; `remove_rows` then removes their rows."""
        for some in in_parts(sorted(run_ids)):
            here = runs.c.id.in_(some) & runs.c.deleted_at.is_(None)
            lock_in_order(self._connection, here)
            self._connection.execute(update(runs).where(here), {"deleted_at": now})

    def deleted_runs(self) -> list[str]:
        """Return the runs whose deletion has begun and is not finished."""
        return list(self._connection.execute(select(runs.c.id).where(runs.c.deleted_at.is_not(None))).scalars())

    def statuses(
        self, *, now: float, deadlines: Deadlines, run_id: str | None = None, project: str | None = None
    ) -> dict[str, tuple[str, str]]:
        """Return name and status of a run, or of all runs of a project, by id."""
        query = select(runs.c.id, runs.c.name, status_column(now, deadlines)).where(runs.c.deleted_at.is_(None))
        if run_id is not None:
            query = query.where(runs.c.id == run_id)
        if project is not None:
            query = query.where(runs.c.project == project)
        return {id_: (name, status) for id_, name, status in self._connection.execute(query)}

    def silent(
        self, *, since: float, now: float, deadlines: Deadlines, limit: int, without: Collection[str] = ()
    ) -> dict[str, str]:
        """Return the projects of some runs without a batch since a time whose trainer does not send, by their ids.

        None of them can send until the transaction ends; a run that is locked elsewhere is left out.
        """
        is_old = _is_silent(since) & runs.c.id.not_in(without)
        query = select(runs.c.id, runs.c.project).where(is_old, ~is_active_column(now, deadlines))
        rows = self._connection.execute(query.limit(limit).with_for_update(skip_locked=True))
        return {run_id: project for run_id, project in rows}  # noqa: C416 - not pairs

    def remove_rows(self, run_id: str, *, limit: int) -> tuple[str, int] | None:
        """Remove rows of a run whose deletion has begun, and return their table and number; None once it is gone.

        Another collector may have removed the run meanwhile, and a trainer may have begun it again.
        """
        here = (runs.c.id == run_id) & runs.c.deleted_at.is_not(None)
        project = self._connection.execute(select(runs.c.project).where(here).with_for_update()).scalar()
        if project is None:
            return None
        for table in _OF_A_RUN:
            if table is alerts:
                Silences(self._connection).remove_of_alerts(run_id)
            is_log = table is records
            removed = self._log.remove(run_id, limit=limit) if is_log else self._remove_some(table, run_id, limit)
            if removed:
                if table is rules:  # the new revision makes collectors drop their copies in memory
                    changed = Rules(self._connection)
                    changed.commit_change(changed.begin_change())
                return table.name, removed
        AuditLog(self._connection).forget_run(run_id)
        self._connection.execute(delete(runs).where(here))
        if self._connection.execute(select(runs.c.id).where(runs.c.project == project)).first() is None:
            AuditLog(self._connection).forget_project(project)
            Silences(self._connection).remove_project(project)
            SavedViews(self._connection).remove_project(project)
        return runs.name, 1

    def with_removed_attempts(self) -> list[str]:
        """Return the runs whose removed attempts still have stored rows."""
        query = select(attempts.c.run_id).where(attempts.c.world_size == REMOVED).distinct()
        return list(self._connection.execute(query).scalars())

    def remove_attempt_rows(self, run_id: str, *, limit: int) -> tuple[str, int] | None:
        """Remove rows of a run's removed attempts, and return their table and number; None once all are gone.

        The compacted values whose chunks the reset has removed come first. The run is locked meanwhile: a reset removes
        rows as well, after which a trainer may use the number of the attempt again.
        """
        locked = select(runs.c.compacted_to).where(runs.c.id == run_id).with_for_update()
        compacted_to = self._connection.execute(locked).scalar()
        attempt = self._connection.execute(removed_attempts(run_id).order_by(attempts.c.attempt).limit(1)).scalar()
        if attempt is None:
            return None
        removed = self._remove_some(chunk_values, run_id, limit, chunk_values.c.first_step >= compacted_to)
        if removed:
            return chunk_values.name, removed
        removed = self._log.remove_attempt(run_id, attempt, limit=limit)
        if removed:
            return records.name, removed
        for table in (steps, responses, waiting, actions, acknowledgements):
            removed = self._remove_some(table, run_id, limit, table.c.attempt == attempt)
            if removed:
                return table.name, removed
        here = (attempts.c.run_id == run_id) & (attempts.c.attempt == attempt)
        return attempts.name, self._connection.execute(delete(attempts).where(here)).rowcount

    def with_records(self, *, silent_since: float) -> list[str]:
        """Return the silent runs that have raw records which are projected."""
        query = select(runs.c.id).where(_is_silent(silent_since), runs.c.records_thinned_to < runs.c.position)
        return list(self._connection.execute(query).scalars())

    def with_more_steps(self, kept: int) -> list[str]:
        """Return the runs that may have raw records of more than their newest ``kept`` steps.

        A run is left out until its projector has written again since the last thinning with this number.
        """
        earlier = kept_attempts(runs.c.id).where(attempts.c.attempt < runs.c.last_attempt)
        query = select(runs.c.id).where(
            runs.c.deleted_at.is_(None),
            or_(runs.c.last_step >= kept, earlier.exists()),
            or_(
                runs.c.records_kept_steps.is_distinct_from(kept),
                runs.c.records_thinned_at.is_distinct_from(runs.c.revision),
            ),
            runs.c.records_thinned_to < runs.c.position,
        )
        return list(self._connection.execute(query).scalars())

    def has_thinned_records(self, run_id: str) -> bool:
        """Return whether raw records of a run have been removed, the first of which always are."""
        first = select(func.length(records.c.body)).where(records.c.run_id == run_id).order_by(records.c.position)
        return self._connection.execute(first.limit(1)).scalar() == 0

    def thin_records(
        self, run_id: str, *, kept_steps: int, limit: int, silent_since: float | None = None
    ) -> tuple[int, bool]:
        """Remove the bodies of the first records that still have one; return their number, and whether there are more.

        A block of records keeps its row, which is needed to recognise a record that is sent again. A block is left
        alone if one of its steps is not projected, or waits for more ranks.

        Args:
            run_id: The run.
            kept_steps: The newest steps whose records are kept. All records after the first block with such a step, and
                after the beginning of a later attempt, are kept as well.
            limit: The largest number of records, unless one block has more.
            silent_since: Nothing is removed if a batch has arrived since then.
        """
        query = select(runs.c.records_thinned_to, runs.c.position, runs.c.revision)
        row = self._lock_run(query, run_id, silent_since)
        if row is None:
            return 0, False
        target = row.position
        if kept_steps:
            first_kept = first_of_newest(self._connection, run_id, kept_steps)
            if first_kept is None:
                target = 0
            else:
                before = self._log.position_of(run_id, *first_kept) - 1
                target = min(target, before, *self._beginnings(run_id, first_kept[0]))
        removed, end, has_more = self._log.thin(run_id, after=row.records_thinned_to, up_to=target, limit=limit)
        thinned = {"records_thinned_to": max(end, row.records_thinned_to)}
        if kept_steps and not has_more:
            thinned |= {"records_kept_steps": kept_steps, "records_thinned_at": row.revision}
        self._connection.execute(update(runs).where(runs.c.id == run_id), thinned)
        return removed, has_more

    def with_responses(self, *, silent_since: float) -> list[str]:
        """Return the silent runs that have sampled responses."""
        held = exists(select(responses.c.number).where(responses.c.run_id == runs.c.id))
        return list(self._connection.execute(select(runs.c.id).where(_is_silent(silent_since), held)).scalars())

    def with_old_responses(self, *, silent_since: float, kept_steps: int) -> list[str]:
        """Return the silent runs with responses from before their newest ``kept_steps`` that are not thinned yet.

        A run is due again once more of its log is projected, because a resumed run can end at the same step.
        """
        up_to = runs.c.last_step - kept_steps
        held = exists(select(responses.c.number).where(responses.c.run_id == runs.c.id, responses.c.step <= up_to))
        is_due = or_(
            runs.c.responses_thinned_to.is_distinct_from(up_to),
            runs.c.responses_thinned_at.is_distinct_from(runs.c.position),
        )
        return list(self._connection.execute(select(runs.c.id).where(_is_silent(silent_since), is_due, held)).scalars())

    def thin_responses(self, run_id: str, *, kept_steps: int, limit: int) -> tuple[int, bool]:
        """Thin the responses from before a run's newest ``kept_steps``, as `Responses.thin` does.

        Returns:
            The number of removed responses, at most ``limit``, and whether there may be more.
        """
        row = self._lock_run(select(runs.c.last_step, runs.c.position), run_id, None)
        if row is None or row.last_step is None:
            return 0, False
        old = Responses(self._connection)
        removed = old.thin(run_id, newest_step=row.last_step, whole_steps=kept_steps, limit=limit)
        if removed < limit:
            thinned = {"responses_thinned_to": row.last_step - kept_steps, "responses_thinned_at": row.position}
            self._connection.execute(update(runs).where(runs.c.id == run_id), thinned)
        return removed, removed == limit

    def remove_responses(self, run_id: str, *, limit: int, silent_since: float | None = None) -> tuple[int, bool]:
        """Remove some sampled responses; return their number, and whether there may be more.

        Nothing is removed if a batch has arrived since ``silent_since``.
        """
        if self._lock_run(select(runs.c.id), run_id, silent_since) is None:
            return 0, False
        removed = self._remove_some(responses, run_id, limit)
        return removed, removed == limit

    def with_steps(self, *, silent_since: float, most: int) -> list[str]:
        """Return the silent runs whose steps are not thinned yet, and which can have more than ``most`` steps."""
        is_due = (runs.c.steps_thinned_to <= runs.c.last_step) & (runs.c.last_step >= most)
        query = select(runs.c.id).where(_is_silent(silent_since), is_due)
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
        row = self._lock_run(query, run_id, silent_since)
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

    def _beginnings(self, run_id: str, attempt: int) -> Sequence[int]:
        """Return the positions of the log at which later attempts than one began, as far as they are known."""
        later = (attempts.c.run_id == run_id) & (attempts.c.attempt > attempt) & (attempts.c.position > 0)
        return self._connection.execute(select(attempts.c.position).where(later)).scalars().all()

    def _lock_run(self, query: Select[Any], run_id: str, silent_since: float | None) -> Row[Any] | None:
        """Read and lock a run until the transaction ends; return None if it is locked elsewhere, or has sent."""
        here = query.where(runs.c.id == run_id, runs.c.deleted_at.is_(None))
        if silent_since is not None:
            here = here.where(_is_silent(silent_since))
        return self._connection.execute(here.with_for_update(skip_locked=True)).first()

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

    def _remove_some(self, table: Table, run_id: str, limit: int, *conditions: ColumnElement[bool]) -> int:
        key = tuple_(*table.primary_key)
        some = select(*table.primary_key).where(table.c.run_id == run_id, *conditions).limit(limit)
        here = (table.c.run_id == run_id) & key.in_(some)
        return self._connection.execute(delete(table).where(here)).rowcount


def _is_silent(since: float) -> ColumnElement[bool]:
    return (runs.c.last_seen < since) & runs.c.deleted_at.is_(None)
