"""The runs whose logs wait to be projected, and which projector owns each."""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select, update

from monitor_server.settings import Deadlines
from monitor_server.store.repositories.run_status import status_column
from monitor_server.store.repositories.runs import lock_in_order
from monitor_server.store.tables import runs, waiting

__all__ = ["ProjectionQueue", "RunBehind"]

_MAY_BE_PROJECTED = ~runs.c.is_settled & runs.c.quarantined_at.is_(None) & runs.c.deleted_at.is_(None)
# The steps of one batch may take many slices, and the position is the end of the batch from the first slice on.
_IS_BEHIND = _MAY_BE_PROJECTED & ((runs.c.log_end > runs.c.position) | runs.c.has_ready_steps)
_BEHIND = (
    select(runs.c.number, runs.c.id, runs.c.position, runs.c.log_end, runs.c.owner, runs.c.owned_until)
    .where(_IS_BEHIND, runs.c.number > bindparam("after"), runs.c.number <= bindparam("up_to"))
    .order_by(runs.c.number)
    .limit(bindparam("limit"))
)
_LARGEST_NUMBER = 2**31 - 1
_UNREAD_ENTRIES = select(func.coalesce(func.sum(runs.c.log_end - runs.c.position), 0)).where(_MAY_BE_PROJECTED)
_STEPS_OF_READY_RUNS = (
    select(func.count())
    .select_from(waiting.join(runs, waiting.c.run_id == runs.c.id))
    .where(_MAY_BE_PROJECTED, runs.c.has_ready_steps)
)
_QUARANTINED = select(runs.c.id).where(
    ~runs.c.is_settled, runs.c.quarantined_at.is_not(None), runs.c.deleted_at.is_(None)
)
_QUARANTINED_BEFORE = _QUARANTINED.where(runs.c.quarantined_at < bindparam("before"))


@dataclass(frozen=True, slots=True)
class RunBehind:
    """A run that is not projected to the end of its log, and its owner; ``number`` counts the runs of the database."""

    number: int
    run_id: str
    position: int
    log_end: int
    owner: str | None
    owned_until: float | None


class ProjectionQueue:
    """Reads which runs wait, and writes their owners."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def unprojected_entries(self) -> int:
        """Return the number of entries in all logs that wait to be projected, without those of quarantined runs.

        The steps of a run that has complete ones are counted as well: a projector has read their entries only.
        """
        return sum(int(self._connection.execute(each).scalar_one()) for each in (_UNREAD_ENTRIES, _STEPS_OF_READY_RUNS))

    def behind(self, *, after: int = 0, limit: int) -> list[RunBehind]:
        """Return runs that have entries of the log to project, or complete steps to process.

        They are in the order of their numbers, from the first one after a number on; the lowest number follows the
        highest one. A caller who continues after the last run that it has taken comes to every run.
        """
        found = self._behind(after=after, up_to=_LARGEST_NUMBER, limit=limit)
        if after > 0 and len(found) < limit:
            found += self._behind(after=0, up_to=after, limit=limit - len(found))
        return found

    def _behind(self, *, after: int, up_to: int, limit: int) -> list[RunBehind]:
        asked = {"after": after, "up_to": up_to, "limit": limit}
        return [RunBehind(*row) for row in self._connection.execute(_BEHIND, asked)]

    def quarantined_runs(self, *, before: float | None = None) -> list[str]:
        """Return the runs that the projector has quarantined, all or those before a time."""
        if before is None:
            return list(self._connection.execute(_QUARANTINED).scalars())
        return list(self._connection.execute(_QUARANTINED_BEFORE, {"before": before}).scalars())

    def unsettle(self, *, now: float, deadlines: Deadlines) -> None:
        """Unsettle the settled runs that have something to do.

        Another clock or other deadlines have settled them, or an older version has written to them since.
        """
        has_changed = status_column(now, deadlines) != runs.c.announced
        is_due = runs.c.is_settled & (has_changed | (runs.c.log_end > runs.c.position))
        if self._connection.execute(select(runs.c.id).where(is_due).limit(1)).first() is not None:
            lock_in_order(self._connection, is_due)
            self._connection.execute(update(runs).where(is_due), {"is_settled": False})

    def claim(
        self, run_id: str, owner: str, *, now: float, until: float, abandoned: tuple[str, float] | None = None
    ) -> bool:
        """Make a projector the owner of a run until a time; return False while another projector is the owner.

        ``abandoned`` is an owner with its time that is ignored, because it has died or is behind.
        """
        is_free = runs.c.owner.is_(None) | (runs.c.owned_until <= now) | (runs.c.owner == owner)
        if abandoned is not None:
            is_free |= (runs.c.owner == abandoned[0]) & (runs.c.owned_until == abandoned[1])
        query = update(runs).where(runs.c.id == run_id, is_free)
        return self._connection.execute(query, {"owner": owner, "owned_until": until}).rowcount == 1

    def has_ending(self, owner: str, *, before: float) -> bool:
        """Whether a projector's ownership of a run that waits ends before a time."""
        query = select(runs.c.id).where(runs.c.owner == owner, _IS_BEHIND, runs.c.owned_until < before).limit(1)
        return self._connection.execute(query).first() is not None

    def prolong(self, owner: str, *, before: float, until: float, most: int) -> None:
        """Extend a projector's ownership of its waiting runs to ``until`` if it would end before ``before``.

        Runs that are locked at this moment are left out, because waiting for them could cause a deadlock.
        """
        ending = (
            select(runs.c.id)
            .where(runs.c.owner == owner, _IS_BEHIND, runs.c.owned_until < before)
            .order_by(runs.c.owned_until)
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        self._connection.execute(update(runs).where(runs.c.id.in_(ending)), {"owned_until": until})

    def release(self, owner: str) -> None:
        """Release all runs of a projector."""
        lock_in_order(self._connection, runs.c.owner == owner)
        self._connection.execute(update(runs).where(runs.c.owner == owner), {"owner": None, "owned_until": None})
