"""Messages to channels: waiting, sent or given up.

A message gathers the events that wait for one channel. At most one message of a channel is open at a time; later events
wait for the next one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, case, delete, exists, func, insert, or_, select, update

from monitor_server.detection.protocol import Severity
from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, try_lock
from monitor_server.store.repositories.alerts import OPEN_INSTRUMENT_KINDS
from monitor_server.store.repositories.notifications.events import (
    EVENT,
    IN_NO_MESSAGE,
    IS_HELD,
    may_be_sent,
)
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.repositories.run_status import REPORTED_END
from monitor_server.store.tables import alerts, notification_events, notification_messages, runs

__all__ = ["FORMER", "IS_OPEN", "MESSAGE", "NotificationMessages", "OpenMessage", "WaitingEvents"]

# More rows than any message names, so that an alert with several changes is named once.
ROWS_READ = 400
REMOVED_AT_ONCE = 1_000
# Separates the name of a channel from the version of its document; no name of a channel contains it.
FORMER = "@"

MESSAGE: Final = notification_messages.c
IS_OPEN: Final = MESSAGE.sent_at.is_(None) & MESSAGE.given_up_at.is_(None)
_BUSY = select(MESSAGE.channel).where(IS_OPEN)
_RANK = case({str(severity): severity.rank for severity in Severity}, value=EVENT.severity, else_=0)
# An alert that only ends does not make a message urgent, unless the message is about nothing else.
_URGENCY = func.coalesce(func.max(case((EVENT.change != "resolved", _RANK))), func.max(_RANK))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEvents:
    """The due events of a channel that no message contains yet.

    ``rank`` is that of the most severe one that is not the end of an alert, if there is one.
    """

    channel: str
    since: float
    rank: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMessage:
    """A message that is neither sent nor given up, as a collector has claimed it."""

    id: str
    channel: str
    created_at: float
    body: bytes
    attempts: int
    claimed_until: float


class NotificationMessages:
    """Forms messages from the waiting events, claims them for delivery, and records the results."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self) -> bool:
        """Return whether this transaction may form and claim messages; one collector at a time may."""
        return try_lock(self._connection, AdvisoryLock.NOTIFICATION_PLANNING)

    def waiting(self, *, now: float) -> list[WaitingEvents]:
        """Return the due events of each channel that has no open message."""
        query = (
            select(EVENT.channel, func.min(EVENT.due_at), _URGENCY, func.count())
            .where(IN_NO_MESSAGE, EVENT.due_at <= now, EVENT.channel.not_in(_BUSY), ~IS_HELD)
            .group_by(EVENT.channel)
        )
        return [
            WaitingEvents(channel=channel, since=since, rank=rank, number=number)
            for channel, since, rank, number in self._connection.execute(query)
        ]

    def has_due(self, channels: Collection[str], *, now: float) -> bool:
        """Return whether a message could be formed or delivered for any of some channels."""
        is_waiting = IN_NO_MESSAGE & (EVENT.due_at <= now) & EVENT.channel.in_(channels) & ~IS_HELD
        is_waiting &= EVENT.channel.not_in(_BUSY)
        events = select(EVENT.alert_id).where(is_waiting).limit(1)
        is_due = IS_OPEN & (MESSAGE.next_attempt_at <= now) & MESSAGE.channel.in_(channels)
        messages = select(MESSAGE.id).where(is_due).limit(1)
        return any(self._connection.execute(query).first() is not None for query in (events, messages))

    def recent(self, channel: str, *, since: float) -> list[tuple[float, str]]:
        """Return the times and severities of a channel's messages since a time, the oldest first."""
        query = select(MESSAGE.created_at, MESSAGE.severity).where(
            MESSAGE.channel == channel, MESSAGE.created_at > since
        )
        return [(at, severity) for at, severity in self._connection.execute(query.order_by(MESSAGE.created_at))]

    def is_below_limit_of_project(self, channel: str, number: int, *, now: float, since: float) -> bool:
        """Return whether a critical alert waits whose project less than a number of messages since a time are about."""
        is_waiting = IN_NO_MESSAGE & (EVENT.channel == channel) & (EVENT.due_at <= now) & ~IS_HELD
        is_critical = (EVENT.severity == str(Severity.CRITICAL)) & (EVENT.change != "resolved")
        with_runs = notification_events.join(runs, runs.c.id == EVENT.run_id)
        waiting = select(runs.c.project).select_from(with_runs).where(is_waiting, is_critical).distinct().subquery()
        about = (
            select(func.count(EVENT.message_id.distinct()))
            .select_from(with_runs.join(notification_messages, MESSAGE.id == EVENT.message_id))
            .where(MESSAGE.channel == channel, MESSAGE.created_at > since, runs.c.project == waiting.c.project)
            .correlate(waiting)
            .scalar_subquery()
        )
        return self._connection.execute(select(waiting.c.project).where(about < number).limit(1)).first() is not None

    def form(self, message_id: str, channel: str, *, severity: str, now: float) -> int:
        """Put all events of a channel that may be sent into a new message, and return their number; 0 for none.

        `set_body` writes its body in the same transaction.
        """
        self._insert(message_id, channel, b"", severity=severity, now=now)
        due = may_be_sent(now) & (EVENT.channel == channel) & ~IS_HELD
        number = self._connection.execute(update(notification_events).where(due), {"message_id": message_id}).rowcount
        if not number:  # another transaction has removed the waiting events meanwhile
            self._connection.execute(delete(notification_messages).where(MESSAGE.id == message_id))
        return number

    def add_notice(self, message_id: str, channel: str, body: bytes, *, severity: str, now: float) -> None:
        """Write a message with its body that is not about an alert."""
        self._insert(message_id, channel, body, severity=severity, now=now)

    def notices_since(self, channel: str, *, severity: str, since: float) -> int:
        """Return the number of messages of a severity since a time for the earlier versions of a channel."""
        former = f"{channel}{FORMER}"
        # Not LIKE, which does not distinguish case on SQLite.
        is_notice = func.substr(MESSAGE.channel, 1, len(former)) == former
        here = is_notice & (MESSAGE.severity == severity) & (MESSAGE.created_at > since)
        return int(self._connection.execute(select(func.count()).where(here)).scalar_one())

    def former_channels(self) -> list[str]:
        """Return the channels of earlier versions, by their names in the queue, that have an open message."""
        query = select(MESSAGE.channel).where(IS_OPEN, MESSAGE.channel.contains(FORMER, autoescape=True)).distinct()
        return list(self._connection.execute(query).scalars())

    def set_body(self, message_id: str, body: bytes, *, events: int) -> None:
        """Write the body of a message that was formed."""
        self._update(message_id, {"body": body, "events": events})

    def replace_body(self, message_id: str, body: bytes) -> None:
        """Write another body of a message that its receiver refuses."""
        self._update(message_id, {"body": body})

    def counts(self, message_id: str) -> dict[str, Any]:
        """Count the subjects of a message.

        Returns:
            ``alerts`` and ``runs`` as numbers; ``changes``, ``kinds`` and ``projects`` as numbers of alerts by name.
        """
        here = EVENT.message_id == message_id
        number = func.count(EVENT.alert_id.distinct())
        totals = select(number, func.count(EVENT.run_id.distinct())).where(here)
        alert_count, run_count = self._connection.execute(totals).one()
        found: dict[str, Any] = {"alerts": alert_count, "runs": run_count}
        joined = notification_events.join(runs, runs.c.id == EVENT.run_id)
        grouped: dict[str, ColumnElement[Any]] = {
            "changes": EVENT.change, "kinds": EVENT.kind, "projects": runs.c.project
        }  # fmt: skip
        for name, column in grouped.items():
            query = select(column, number).select_from(joined).where(here).group_by(column).order_by(number.desc())
            found[name] = {str(key): count for key, count in self._connection.execute(query.limit(ROWS_READ))}
        return found

    def details(self, message_id: str) -> list[dict[str, Any]]:
        """Return the first events of a message with their alerts and runs.

        The alerts that are open come first, then the most severe ones. Among equals the projects take turns, each with
        its oldest ones first: many alerts of one project leave room for those of another.
        """
        is_over, oldest_first = alerts.c.state == "resolved", (EVENT.at, EVENT.alert_id)
        turn = func.row_number().over(partition_by=(is_over, _RANK, runs.c.project), order_by=oldest_first)
        query = (
            select(
                EVENT.change, EVENT.instead_of, EVENT.severity.label("event_severity"), alerts,
                runs.c.name.label("run"), runs.c.project, REPORTED_END.label("run_end"), runs.c.last_seen,
                OPEN_INSTRUMENT_KINDS,
            )
            .join(alerts, (alerts.c.run_id == EVENT.run_id) & (alerts.c.id == EVENT.alert_id))
            .join(runs, runs.c.id == EVENT.run_id)
            .where(EVENT.message_id == message_id)
            .order_by(is_over, _RANK.desc(), turn, *oldest_first)
            .limit(ROWS_READ)
        )  # fmt: skip
        return [row_fields(row) for row in self._connection.execute(query).mappings()]

    def claim(self, *, channels: Collection[str], now: float, until: float) -> list[OpenMessage]:
        """Claim the messages that are due on some channels, so that no other collector delivers them meanwhile."""
        is_free = or_(MESSAGE.claimed_until.is_(None), MESSAGE.claimed_until <= now)
        query = select(MESSAGE.id, MESSAGE.channel, MESSAGE.created_at, MESSAGE.body, MESSAGE.attempts).where(
            IS_OPEN, is_free, MESSAGE.next_attempt_at <= now, MESSAGE.channel.in_(channels)
        )
        found = [OpenMessage(**row, claimed_until=until) for row in self._connection.execute(query).mappings()]
        for message in found:
            self._update(message.id, {"claimed_until": until})
        return found

    def holds(self, message: OpenMessage) -> bool:
        """Return whether a claim on a message is still in force, and let no other collector claim it meanwhile.

        It is not if it has ended and another collector has claimed the message, or has stored a result.
        """
        here = (MESSAGE.id == message.id) & (MESSAGE.claimed_until == message.claimed_until)
        return self._connection.execute(select(MESSAGE.id).where(here).with_for_update()).first() is not None

    def release(self, message_id: str | None = None) -> None:
        """End the claim on a message, or all claims if no other collector uses the database."""
        here = IS_OPEN if message_id is None else MESSAGE.id == message_id
        self._connection.execute(update(notification_messages).where(here), {"claimed_until": None})

    def mark_sent(self, message_id: str, *, now: float) -> None:
        """Record that a receiver has accepted a message; the data of runs in it is removed."""
        self._update(message_id, {"sent_at": now, "claimed_until": None, "body": b"", "error": None})

    def mark_failed(self, message_id: str, *, error: str, attempts: int, next_attempt_at: float) -> None:
        """Record that an attempt has failed, and the time of the next one."""
        values = {"error": error, "attempts": attempts, "next_attempt_at": next_attempt_at, "claimed_until": None}
        self._update(message_id, values)

    def begin_again(self, channel: str, *, now: float) -> None:
        """Have the message that a channel has refused tried at once as a new one, unless it is being delivered."""
        is_free = or_(MESSAGE.claimed_until.is_(None), MESSAGE.claimed_until <= now)
        here = IS_OPEN & is_free & (MESSAGE.channel == channel)
        values = {"attempts": 0, "next_attempt_at": now, "error": None}
        self._connection.execute(update(notification_messages).where(here), values)

    def give_up(self, message_id: str, *, error: str, now: float) -> None:
        """Record that a message is not tried again."""
        self._update(message_id, {"given_up_at": now, "claimed_until": None, "body": b"", "error": error})

    def remove_unknown_channels(self, known: Collection[str]) -> int:
        """Remove the open messages and the events of channels that the file no longer has; return how many events."""
        gone = IS_OPEN & MESSAGE.channel.not_in(known)
        is_unsent = IN_NO_MESSAGE | EVENT.message_id.in_(select(MESSAGE.id).where(gone))
        here = is_unsent & EVENT.channel.not_in(known)
        removed = self._connection.execute(delete(notification_events).where(here)).rowcount
        self._connection.execute(delete(notification_messages).where(gone))
        return removed

    def remove_old(self, *, before: float) -> int:
        """Remove some messages from before a time that were sent or given up, with their events; return their number.

        Those about an alert that is open stay, because they tell whom to notify of its end. Waiting messages whose runs
        were all deleted are removed as well.
        """
        held = exists().where(EVENT.message_id == MESSAGE.id)
        is_notice = MESSAGE.channel.contains(FORMER, autoescape=True)
        self._connection.execute(delete(notification_messages).where(IS_OPEN, ~held, ~is_notice))
        over = (MESSAGE.created_at < before) & ~IS_OPEN
        is_open = (alerts.c.run_id == EVENT.run_id) & (alerts.c.id == EVENT.alert_id) & (alerts.c.state != "resolved")
        is_needed = exists().where(EVENT.message_id == MESSAGE.id, is_open)
        some = select(MESSAGE.id).where(over, ~is_needed).limit(REMOVED_AT_ONCE)
        found = list(self._connection.execute(some).scalars())
        self._connection.execute(delete(notification_events).where(EVENT.message_id.in_(found)))
        self._connection.execute(delete(notification_messages).where(MESSAGE.id.in_(found)))
        return len(found)

    def limit_times(self, now: float) -> None:
        """Set every time from which a delay counts to ``now`` if it lies in the future; the delays stay."""
        begun_later = {"due_at": EVENT.due_at - (EVENT.at - now), "at": now}
        self._connection.execute(update(notification_events).where(EVENT.at > now).values(begun_later))
        for name in ("created_at", "next_attempt_at", "claimed_until", "sent_at", "given_up_at"):
            self._connection.execute(update(notification_messages).where(MESSAGE[name] > now), {name: now})

    def _insert(self, message_id: str, channel: str, body: bytes, *, severity: str, now: float) -> None:
        message = {
            "id": message_id, "channel": channel, "created_at": now, "severity": severity, "events": 0, "body": body,
            "attempts": 0, "next_attempt_at": now,
        }  # fmt: skip
        self._connection.execute(insert(notification_messages), message)

    def _update(self, message_id: str, values: Mapping[str, Any]) -> None:
        self._connection.execute(update(notification_messages).where(MESSAGE.id == message_id), dict(values))
