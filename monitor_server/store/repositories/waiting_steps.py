"""Steps that not every rank has reported."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, bindparam, delete, func, insert, select, tuple_

from monitor_server.store.repositories.removed_attempts import is_kept
from monitor_server.store.statements import in_parts
from monitor_server.store.tables import waiting

__all__ = ["Waiting"]

_FIRST = (
    select(waiting.c.attempt, waiting.c.step, waiting.c.first_seen)
    .where(
        waiting.c.run_id == bindparam("run"),
        tuple_(waiting.c.attempt, waiting.c.step) > tuple_(bindparam("attempt"), bindparam("step")),
        is_kept(waiting.c.attempt, bindparam("run")),
    )
    .order_by(waiting.c.attempt, waiting.c.step)
    .limit(bindparam("limit"))
)
_OVERDUE = select(waiting.c.run_id).where(waiting.c.first_seen <= bindparam("before")).distinct()
_AMONG = select(waiting.c.step).where(
    waiting.c.run_id == bindparam("run"),
    waiting.c.attempt == bindparam("attempt"),
    waiting.c.step.in_(bindparam("steps", expanding=True)),
)
_REMOVE = delete(waiting).where(
    waiting.c.run_id == bindparam("run"),
    waiting.c.attempt == bindparam("of_attempt"),
    waiting.c.step == bindparam("of_step"),
)


class Waiting:
    """Steps that not every rank has reported."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, run_id: str, steps: Mapping[tuple[int, int], float]) -> None:
        """Keep steps, by attempt and step, with the time at which each was first seen."""
        rows = [
            {"run_id": run_id, "attempt": attempt, "step": step, "first_seen": first_seen}
            for (attempt, step), first_seen in steps.items()
        ]
        if rows:
            self._connection.execute(insert(waiting), rows)

    def remove(self, run_id: str, steps: Iterable[tuple[int, int]]) -> None:
        """Remove steps that are complete."""
        rows = [{"run": run_id, "of_attempt": attempt, "of_step": step} for attempt, step in steps]
        if rows:
            self._connection.execute(_REMOVE, rows)

    def first(self, run_id: str, *, after: tuple[int, int] = (-1, -1), limit: int) -> dict[tuple[int, int], float]:
        """Return the time at which each of the first steps after one was seen, in the order of detection."""
        attempt, step = after
        rows = self._connection.execute(_FIRST, {"run": run_id, "attempt": attempt, "step": step, "limit": limit})
        return {(attempt, step): first_seen for attempt, step, first_seen in rows}

    def among(self, run_id: str, steps: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return those of ``steps``, by attempt and step, that wait."""
        by_attempt: defaultdict[int, list[int]] = defaultdict(list)
        for attempt, step in steps:
            by_attempt[attempt].append(step)
        found: set[tuple[int, int]] = set()
        for attempt, numbers in by_attempt.items():
            for some in in_parts(numbers):
                asked = {"run": run_id, "attempt": attempt, "steps": some}
                found.update((attempt, step) for step in self._connection.execute(_AMONG, asked).scalars())
        return found

    def count_of(self, run_id: str) -> int:
        """Return the number of steps of a run that wait."""
        query = select(func.count()).where(waiting.c.run_id == run_id, is_kept(waiting.c.attempt, run_id))
        return int(self._connection.execute(query).scalar_one())

    def count(self) -> int:
        """Return the number of steps that wait, of all runs together."""
        return int(self._connection.execute(select(func.count()).select_from(waiting)).scalar_one())

    def overdue_runs(self, *, before: float) -> list[str]:
        """Return the runs that have a step first seen before a time."""
        return list(self._connection.execute(_OVERDUE, {"before": before}).scalars())
