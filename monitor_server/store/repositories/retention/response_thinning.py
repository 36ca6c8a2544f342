"""Removes old sampled responses."""

from sqlalchemy import Connection, exists, or_, select, update

from monitor_server.store.repositories.responses import Responses
from monitor_server.store.repositories.retention.silent_runs import is_silent, lock_run, remove_some
from monitor_server.store.tables import responses, runs

__all__ = ["ResponseThinning"]


class ResponseThinning:
    """Finds and thins the runs whose sampled responses are old."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def with_responses(self, *, silent_since: float) -> list[str]:
        """Return the silent runs that have sampled responses."""
        held = exists(select(responses.c.number).where(responses.c.run_id == runs.c.id))
        return list(self._connection.execute(select(runs.c.id).where(is_silent(silent_since), held)).scalars())

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
        return list(self._connection.execute(select(runs.c.id).where(is_silent(silent_since), is_due, held)).scalars())

    def thin_responses(self, run_id: str, *, kept_steps: int, limit: int) -> tuple[int, bool]:
        """Thin the responses from before a run's newest ``kept_steps``, as `Responses.thin` does.

        Returns:
            The number of removed responses, at most ``limit``, and whether there may be more.
        """
        row = lock_run(self._connection, select(runs.c.last_step, runs.c.position), run_id)
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
        if lock_run(self._connection, select(runs.c.id), run_id, silent_since=silent_since) is None:
            return 0, False
        removed = remove_some(self._connection, responses, run_id, limit)
        return removed, removed == limit
