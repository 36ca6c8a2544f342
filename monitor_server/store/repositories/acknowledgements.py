"""Acknowledgements of alerts, which are part of the log of their run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from monitor_server.store.repositories.numbering import number_rows
from monitor_server.store.repositories.removed_attempts import is_of_kept_attempt
from monitor_server.store.tables import acknowledgements

__all__ = ["Acknowledgements", "StoredAcknowledgement"]

_FIELDS = [acknowledgements.c[name] for name in ("alert_id", "kind", "attempt", "step", "at", "by", "note")]
_OF_RUN = (
    select(*_FIELDS)
    .where(
        acknowledgements.c.run_id == bindparam("run"),
        is_of_kept_attempt(acknowledgements.c.attempt, bindparam("run")),
    )
    .order_by(acknowledgements.c.number)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAcknowledgement:
    """A person's acknowledgement of an alert, and the newest step of detection at that time, None until projected."""

    alert_id: str
    kind: str
    attempt: int | None
    step: int | None
    at: float
    by: str
    note: str


class Acknowledgements:
    """Reads and writes acknowledgements."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, run_id: str, given: StoredAcknowledgement, *, position: int) -> None:
        """Append an acknowledgement to the run's log."""
        row = {"run_id": run_id, "position": position} | asdict(given)
        self._connection.execute(
            insert(acknowledgements), number_rows(self._connection, acknowledgements, [row], run_id=run_id)
        )

    def count(self, run_id: str, kind: str) -> int:
        """Return the number of acknowledgements of the alerts of one run and kind."""
        here = (acknowledgements.c.run_id == run_id) & (acknowledgements.c.kind == kind)
        return self._connection.execute(select(func.count()).where(here)).scalar_one()

    def after(self, run_id: str, position: int) -> dict[int, StoredAcknowledgement]:
        """Return the acknowledgements that follow a position of the log, by position."""
        query = select(acknowledgements.c.position, *_FIELDS).where(
            acknowledgements.c.run_id == run_id, acknowledgements.c.position > position
        )
        rows = self._connection.execute(query).mappings()
        return {row["position"]: _acknowledgement(row) for row in rows}

    def place(self, run_id: str, position: int, *, attempt: int, step: int) -> None:
        """Write the step after which detection has processed an acknowledgement."""
        here = (acknowledgements.c.run_id == run_id) & (acknowledgements.c.position == position)
        self._connection.execute(update(acknowledgements).where(here), {"attempt": attempt, "step": step})

    def of_run(self, run_id: str) -> list[StoredAcknowledgement]:
        """Return the acknowledgements that detection has processed, in order, without those of removed attempts."""
        return [_acknowledgement(row) for row in self._connection.execute(_OF_RUN, {"run": run_id}).mappings()]


def _acknowledgement(row: Mapping[Any, Any]) -> StoredAcknowledgement:
    return StoredAcknowledgement(**{name: row[name] for name in StoredAcknowledgement.__slots__})
