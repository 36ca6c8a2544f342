"""The attempts of runs: each launch of a training under the name of one run."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, insert, select, update

from monitor_server.errors import DeletionUnderWay
from monitor_server.store.repositories.log.blocks import SPAN
from monitor_server.store.repositories.removed_attempts import REMOVED
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.tables import attempts, records, runs

__all__ = ["AttemptSpan", "Attempts"]

_ATTEMPTS = (
    select(attempts.c.attempt, attempts.c.world_size)
    .where(attempts.c.run_id == bindparam("run"), attempts.c.world_size != REMOVED)
    .order_by(attempts.c.attempt)
)
_OF_ATTEMPT = (records.c.run_id == attempts.c.run_id) & (records.c.attempt == attempts.c.attempt)
_earlier = records.alias()
_FIRST_END = (
    select(func.min(_earlier.c.step))
    .where(_earlier.c.run_id == attempts.c.run_id, _earlier.c.attempt == attempts.c.attempt)
    .correlate(attempts)
    .scalar_subquery()
)
# The index has the last step of each block. The block with the first step ends less than `SPAN` after the first end.
_FIRST_STEP = (
    select(func.min(records.c.step - records.c.step_span))
    .where(_OF_ATTEMPT, records.c.step < _FIRST_END + SPAN)
    .correlate(attempts)
    .scalar_subquery()
)
_SPANS = (
    select(
        attempts.c.first_seen,
        attempts.c.has_config,
        attempts.c.config_change,
        _FIRST_STEP.label("first_step"),
        select(func.max(records.c.step)).where(_OF_ATTEMPT).scalar_subquery().label("last_step"),
    )
    .where(attempts.c.run_id == bindparam("run"), attempts.c.world_size != REMOVED)
    .order_by(attempts.c.attempt)
)
_ATTEMPT = select(attempts.c.world_size, attempts.c.has_config).where(
    attempts.c.run_id == bindparam("run"), attempts.c.attempt == bindparam("attempt")
)
_POSITIONS = select(attempts.c.attempt, attempts.c.position).where(
    attempts.c.run_id == bindparam("run"), attempts.c.world_size != REMOVED
)
_BEGUN = select(attempts.c.position, attempts.c.attempt).where(
    attempts.c.run_id == bindparam("run"),
    attempts.c.position > bindparam("after"),
    attempts.c.world_size != REMOVED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpan:
    """The steps that an attempt has recorded; None if it has none.

    ``config_change`` describes how its configuration differs from the one before. It is empty if they are equal, and
    None if there was none before.
    """

    first_seen: float
    has_config: bool
    config_change: str | None
    first_step: int | None
    last_step: int | None


class Attempts:
    """Reads and writes attempts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save_config(self, run_id: str, attempt: int, config: bytes, *, describe: Callable[[bytes, bytes], str]) -> None:
        """Write a run's configuration, once in an attempt, with its differences from the one before.

        Args:
            run_id: The run.
            attempt: The attempt.
            config: The configuration as JSON.
            describe: Returns the differences of two configurations in words.
        """
        row = self._connection.execute(_ATTEMPT, {"run": run_id, "attempt": attempt}).one()
        if not row.has_config:
            before = self._connection.execute(select(runs.c.config).where(runs.c.id == run_id)).scalar()
            here = (attempts.c.run_id == run_id) & (attempts.c.attempt == attempt)
            change = None if before is None else describe(before, config)
            self._connection.execute(update(attempts).where(here), {"has_config": True, "config_change": change})
            self._connection.execute(update(runs).where(runs.c.id == run_id), {"config": config})

    def enter(self, run_id: str, attempt: int, *, world_size: int, now: float, position: int) -> int | None:
        """Store an attempt, and return the largest world size that any of its ranks had sent; None if it is new.

        Raises:
            DeletionUnderWay: If the attempt was removed and rows of it are still stored.
        """
        row = self._connection.execute(_ATTEMPT, {"run": run_id, "attempt": attempt}).one_or_none()
        if row is None:
            values = {"run_id": run_id, "attempt": attempt, "world_size": world_size}
            self._connection.execute(
                insert(attempts), values | {"first_seen": now, "position": position, "has_config": False}
            )
            return None
        if row.world_size == REMOVED:
            raise DeletionUnderWay(f"attempt {attempt} of run {run_id} is being removed by a reset; send again later")
        if row.world_size < world_size:
            self.set_world_size(run_id, attempt, world_size)
        return max(int(row.world_size), world_size)

    def set_world_size(self, run_id: str, attempt: int, world_size: int) -> None:
        """Write the number of ranks of an attempt."""
        here = (attempts.c.run_id == run_id) & (attempts.c.attempt == attempt)
        self._connection.execute(update(attempts).where(here), {"world_size": world_size})

    def beginnings(self, run_id: str, *, after: int) -> dict[int, int]:
        """Return position and number of the attempts that began after a position of the log."""
        rows = self._connection.execute(_BEGUN, {"run": run_id, "after": after})
        return {position: attempt for position, attempt in rows}  # noqa: C416 - rows are not pairs to mypy

    def positions(self, run_id: str) -> dict[int, int]:
        """Return the position of the log at which each attempt began; 0 for those of a version without positions."""
        rows = self._connection.execute(_POSITIONS, {"run": run_id})
        return {attempt: position for attempt, position in rows}  # noqa: C416 - rows are not pairs to mypy

    def count(self, run_id: str, *, begun_until: int) -> int:
        """Return how many attempts of a run began at a position of the log or before it."""
        here = (attempts.c.run_id == run_id) & (attempts.c.position <= begun_until) & (attempts.c.world_size != REMOVED)
        return self._connection.execute(select(func.count()).where(here)).scalar_one()

    def mark_removed(self, run_id: str, *, above: int) -> bool:
        """Hide every later attempt from readers; `Retention.remove_attempt_rows` then removes their rows.

        Returns:
            Whether there are any.
        """
        here = (attempts.c.run_id == run_id) & (attempts.c.attempt > above)
        return self._connection.execute(update(attempts).where(here), {"world_size": REMOVED}).rowcount > 0

    def newest_at(self, run_id: str, at: float) -> int | None:
        """Return the newest attempt that had begun by a time; None where none had."""
        kept = (attempts.c.run_id == run_id) & (attempts.c.world_size != REMOVED) & (attempts.c.first_seen <= at)
        return self._connection.execute(select(func.max(attempts.c.attempt)).where(kept)).scalar()

    def ordinals(self, run_id: str) -> dict[int, tuple[int, int]]:
        """Return each attempt's ordinal, from 1, and world size."""
        rows = self._connection.execute(_ATTEMPTS, {"run": run_id})
        return {attempt: (ordinal, world_size) for ordinal, (attempt, world_size) in enumerate(rows, start=1)}

    def spans(self, run_id: str) -> list[AttemptSpan]:
        """Return the steps of each attempt, the oldest attempt first."""
        rows = self._connection.execute(_SPANS, {"run": run_id}).mappings()
        return [AttemptSpan(**row_fields(row)) for row in rows]
