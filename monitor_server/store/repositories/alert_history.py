"""The history of alerts: every change of their stage, and comments."""

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select

from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.numbering import number_rows
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.tables import alert_history

__all__ = ["JUDGED_RIGHT", "JUDGED_WRONG", "AlertHistory", "HistoryEntry"]

JUDGED_RIGHT, JUDGED_WRONG = "judged_right", "judged_wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One change of an alert.

    Attributes:
        at: Seconds since the epoch.
        change: ``opened``, ``reopened``, `JUDGED_RIGHT`, `JUDGED_WRONG`, or a `Change` of
            `monitor_server.alerts.changes.stages`.
        step: The step at which detection found it, the newest step of the run when a comment was written, or the step
            of the failure that a judgement states; None if there is none.
        by: The person or key that caused it; None for the collector.
        why: The reason, or the text of a comment.
    """

    at: float
    change: str
    why: str
    step: int | None = None
    by: str | None = None


class AlertHistory:
    """Reads and appends the history of alerts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, alert: Alert, entry: HistoryEntry) -> None:
        """Append an entry to the history of an alert; the alert is passed in its state after the change."""
        row = {"run_id": alert.run_id, "alert_id": alert.id, "kind": alert.kind, "stage": alert.stage} | asdict(entry)
        self._connection.execute(
            insert(alert_history), number_rows(self._connection, alert_history, [row], run_id=alert.run_id)
        )

    def comments(self, alert: Alert) -> int:
        """Return the number of comments and judgements on the alerts of a run and a kind."""
        here = (alert_history.c.run_id == alert.run_id) & (alert_history.c.kind == alert.kind)
        written = ["commented", JUDGED_RIGHT, JUDGED_WRONG]
        query = select(func.count()).where(here, alert_history.c.change.in_(written))
        return int(self._connection.execute(query).scalar_one())

    def comments_at_steps(self, run_id: str, *, limit: int) -> list[dict[str, Any]]:
        """Return the newest comments on the alerts of a run that have a step, the newest first."""
        query = (
            select(alert_history)
            .where(
                alert_history.c.run_id == run_id,
                alert_history.c.change == "commented",
                alert_history.c.step.is_not(None),
            )
            .order_by(alert_history.c.number.desc())
            .limit(limit)
        )
        return [row_fields(row) for row in self._connection.execute(query).mappings()]

    def judgements(self, run_id: str) -> list[dict[str, Any]]:
        """Return the newest judgement of each alert of a run, the oldest alert first, with the alert's kind."""
        judged = alert_history.c.change.in_([JUDGED_RIGHT, JUDGED_WRONG])
        query = select(alert_history).where(alert_history.c.run_id == run_id, judged).order_by(alert_history.c.number)
        newest: dict[str, dict[str, Any]] = {}
        for row in self._connection.execute(query).mappings():
            newest[row["alert_id"]] = row_fields(row)
        return list(newest.values())

    def newest_judgement(self, alert: Alert) -> dict[str, Any] | None:
        """Return the valid judgement of an alert, or None if nobody has judged it."""
        here = (alert_history.c.run_id == alert.run_id) & (alert_history.c.alert_id == alert.id)
        query = select(alert_history).where(here, alert_history.c.change.in_([JUDGED_RIGHT, JUDGED_WRONG]))
        row = self._connection.execute(query.order_by(alert_history.c.number.desc()).limit(1)).mappings().first()
        return None if row is None else row_fields(row)

    def page(self, run_id: str, kind: str, *, limit: int, before: int | None = None) -> list[dict[str, Any]]:
        """Return the history of all alerts of a run and a kind, the newest first, before the entry ``before``."""
        here = (alert_history.c.run_id == run_id) & (alert_history.c.kind == kind)
        query = select(alert_history).where(here).order_by(alert_history.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(alert_history.c.number < before)
        return [row_fields(row) for row in self._connection.execute(query).mappings()]
