"""Redirection: what a channel refuses goes to the fallback as well."""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, exists, select

from monitor_server.store.repositories.notifications.events import (
    EVENT,
    IS_ANSWERED,
    IS_HELD,
    NotificationEvent,
    NotificationEvents,
    may_be_sent,
)
from monitor_server.store.repositories.notifications.messages import IS_OPEN, MESSAGE, OpenMessage
from monitor_server.store.tables import alerts, notification_events

__all__ = ["NotificationRedirection"]

# The events of alerts that were silenced or acknowledged since are not passed on.
_IS_FOR_FALLBACK = (
    ~IS_HELD
    & ~IS_ANSWERED
    & ~exists().where(alerts.c.run_id == EVENT.run_id, alerts.c.id == EVENT.alert_id, alerts.c.silence_id.is_not(None))
)


class NotificationRedirection:
    """Writes the events of one channel for another one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def pass_on(self, message: OpenMessage, *, to: str, now: float) -> None:
        """Write the events of a message, and the events that wait after it, for another channel as well."""
        own = (EVENT.message_id == message.id) | may_be_sent(now)
        self._write_for((EVENT.channel == message.channel) & own & _IS_FOR_FALLBACK, to=to, now=now)

    def pass_on_late(self, to: str, before: float, *, now: float) -> None:
        """Write the events of messages that are refused since before a time, and what waits after them, likewise."""
        if refused := self._refused(to, before):
            self._write_for(_late(refused, to=to, now=now), to=to, now=now)

    def has_late(self, to: str, before: float, *, now: float) -> bool:
        """Return whether `pass_on_late` has anything to write."""
        if not (refused := self._refused(to, before)):
            return False
        query = select(EVENT.alert_id).where(_late(refused, to=to, now=now)).limit(1)
        return self._connection.execute(query).first() is not None

    def _refused(self, to: str, before: float) -> dict[str, str]:
        """Return the channels other than ``to`` of the messages that are refused since before a time, by message."""
        query = select(MESSAGE.id, MESSAGE.channel, MESSAGE.created_at).where(IS_OPEN, MESSAGE.attempts > 0)
        rows = self._connection.execute(query)
        return {id_: channel for id_, channel, created_at in rows if channel != to and created_at <= before}

    def _write_for(self, events: ColumnElement[bool], *, to: str, now: float) -> None:
        columns = [column for column in notification_events.c if column.name != "message_id"]
        rows = self._connection.execute(select(*columns).where(events)).mappings().all()
        moved = [dict(row) | {"channel": to, "due_at": now, "instead_of": row["channel"]} for row in rows]
        NotificationEvents(self._connection).add([NotificationEvent(**each) for each in moved])


def _late(refused: Mapping[str, str], *, to: str, now: float) -> ColumnElement[bool]:
    """Return whether an event is in a refused message, or waits after one, and ``to`` does not have it yet."""
    is_waiting = may_be_sent(now) & EVENT.channel.in_(refused.values())
    passed = notification_events.alias().c
    has_passed = exists().where(
        passed.channel == to, *(passed[name] == EVENT[name] for name in ("run_id", "alert_id", "change", "severity"))
    )
    return (is_waiting | EVENT.message_id.in_(refused)) & ~has_passed & _IS_FOR_FALLBACK
