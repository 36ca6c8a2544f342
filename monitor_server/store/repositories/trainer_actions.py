"""The actions that trainers reported to have taken about alerts."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select

from monitor_server.store.repositories.numbering import number_rows
from monitor_server.store.repositories.removed_attempts import is_of_kept_attempt
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.tables import actions
from trainer_hooks.wire import ActionReport, ForkResult, spell_non_finite

__all__ = ["Actions"]


class Actions:
    """Reads and appends reports of actions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(
        self, run_id: str, reports: Sequence[ActionReport], *, attempt: int, step: int, rank: int, time: float
    ) -> None:
        """Append the reports of one record."""
        common = {"run_id": run_id, "attempt": attempt, "step": step, "rank": rank, "time": time}
        rows = [
            common
            | {
                "action": report.action,
                "outcome": report.outcome,
                "alert_id": report.alert_id,
                "reason": report.reason,
                "detail": report.detail,
                "forks": _encode(report.forks) if report.forks else None,
            }
            for report in reports
        ]
        if rows:
            self._connection.execute(insert(actions), number_rows(self._connection, actions, rows, run_id=run_id))

    def page(self, run_id: str, *, limit: int, before: int | None = None) -> list[dict[str, Any]]:
        """Return the reports of a run's attempts, the newest first, before the one numbered ``before``."""
        here = (actions.c.run_id == run_id) & is_of_kept_attempt(actions.c.attempt, run_id)
        query = select(actions).where(here).order_by(actions.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(actions.c.number < before)
        rows = self._connection.execute(query).mappings()
        return [row_fields(row) | {"forks": _decode(row["forks"])} for row in rows]


def _encode(forks: Sequence[ForkResult]) -> bytes:
    return json.dumps(spell_non_finite([msgspec.structs.asdict(fork) for fork in forks])).encode()


def _decode(stored: bytes | None) -> list[dict[str, Any]]:
    forks: list[dict[str, Any]] = [] if stored is None else json.loads(stored)
    return forks
