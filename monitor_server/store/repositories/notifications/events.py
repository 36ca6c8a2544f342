"""Events: changes of alerts, one row for each channel to notify, until a message contains them.

An event is written in the transaction of an alert's transition.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, exists, select
from sqlalchemy.dialects import postgresql, sqlite

from monitor_server.store.repositories.run_status import REPORTED_END
from monitor_server.store.tables import alerts, notification_events, notification_messages, runs

__all__ = ["EVENT", "IN_NO_MESSAGE", "IS_ANSWERED", "IS_HELD", "NotificationEvent", "NotificationEvents", "may_be_sent"]

EVENT: Final = notification_events.c
IN_NO_MESSAGE: Final = EVENT.message_id.is_(None)
# An escalation of an alert that somebody has acknowledged, or that has changed since.
IS_ANSWERED: Final = (EVENT.change == "unacknowledged") & ~exists().where(
    alerts.c.run_id == EVENT.run_id,
    alerts.c.id == EVENT.alert_id,
    alerts.c.state == "firing",
    alerts.c.acknowledged_at.is_(None),
    alerts.c.severity == EVENT.severity,
)
# The rows of a run whose deletion has begun are removed a little later. An escalation waits while its run has ended,
# because the end may be that of one job, and the next one continues the run.
IS_HELD: Final = (
    exists()
    .where(
        runs.c.id == EVENT.run_id,
        runs.c.deleted_at.is_not(None) | ((EVENT.change == "unacknowledged") & REPORTED_END.is_not(None)),
    )
    .correlate(notification_events)
)


def may_be_sent(now: float) -> ColumnElement[bool]:
    """Return whether an event belongs into the next message of its channel.

    Only an escalation waits for its time. Any other event is due when it is written: if that time lies in the future,
    the clock of another collector is ahead, and a later event about the same alert must not leave before it.
    """
    return IN_NO_MESSAGE & ((EVENT.due_at <= now) | (EVENT.change != "unacknowledged"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationEvent:
    """One change of an alert of which a channel will be notified.

    Attributes:
        change: ``opened``, ``raised``, ``unacknowledged`` or ``resolved``.
        at: The time of the change, in seconds since the epoch.
        due_at: The earliest time at which it may be sent: later than ``at`` for an escalation.
        instead_of: The channel that failed, if this one is the fallback.
    """

    run_id: str
    alert_id: str
    change: str
    severity: str
    channel: str
    kind: str
    at: float
    due_at: float
    instead_of: str | None = None


class NotificationEvents:
    """Writes events, and removes those that are no longer needed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, events: Sequence[NotificationEvent]) -> None:
        """Write events; an event that exists already stays as it is."""
        if events:
            dialect = sqlite if self._connection.dialect.name == "sqlite" else postgresql
            rows = [asdict(event) for event in events]
            self._connection.execute(dialect.insert(notification_events).on_conflict_do_nothing(), rows)

    def about(self, run_id: str, alert_id: str) -> list[NotificationEvent]:
        """Return the events of which the channels were notified while an alert was open, or will be."""
        here = (EVENT.run_id == run_id) & (EVENT.alert_id == alert_id) & (EVENT.change != "resolved")
        columns = [EVENT[field.name] for field in fields(NotificationEvent)]
        return [NotificationEvent(**row) for row in self._connection.execute(select(*columns).where(here)).mappings()]

    def remove_given_up(self, run_id: str, alert_id: str, *, severity: str) -> None:
        """Remove the events of an alert of this severity that never arrived, because their message was given up."""
        given_up = select(notification_messages.c.id).where(notification_messages.c.given_up_at.is_not(None))
        here = (EVENT.run_id == run_id) & (EVENT.alert_id == alert_id) & (EVENT.severity == severity)
        here &= EVENT.message_id.in_(given_up)
        self._connection.execute(delete(notification_events).where(here))

    def remove_escalations(self, run_id: str, alert_id: str) -> None:
        """Remove the escalations of an alert that no message contains yet, due or not, because the alert has ended."""
        here = (EVENT.run_id == run_id) & (EVENT.alert_id == alert_id) & (EVENT.change == "unacknowledged")
        self._connection.execute(delete(notification_events).where(here & IN_NO_MESSAGE))

    def remove_waiting(self, run_id: str, alert_id: str) -> None:
        """Remove the events of a silenced alert that no message contains yet, including escalations."""
        here = (EVENT.run_id == run_id) & (EVENT.alert_id == alert_id) & IN_NO_MESSAGE
        self._connection.execute(delete(notification_events).where(here))

    def remove_answered_escalations(self, *, now: float) -> None:
        """Remove the due escalations of alerts that somebody has acknowledged, or that have changed since."""
        due = IN_NO_MESSAGE & (EVENT.due_at <= now)
        self._connection.execute(delete(notification_events).where(due, IS_ANSWERED))
