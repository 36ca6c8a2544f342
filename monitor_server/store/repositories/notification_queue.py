"""The queue of notifications: what channels are to be notified of, and the messages to them, waiting, sent or given up.

An event is written in the transaction of an alert's transition, one row for each channel. A message gathers the events
that wait for one channel. At most one message of a channel is open at a time; what happens meanwhile waits for the
next.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, delete, exists, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, try_lock
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.tables import alerts, notification_events, notification_messages, runs

__all__ = ["FAILING_ATTEMPTS", "FORMER", "NotificationEvent", "NotificationQueue", "OpenMessage", "WaitingEvents"]

# More than are named in any message, so that an alert with several changes is named once.
ROWS_READ = 400
REMOVED_AT_ONCE = 1_000
# One failure may be a receiver that is restarted.
FAILING_ATTEMPTS = 3
# Stands between the name of a channel and the version of the document that had it; no name of a channel holds it.
FORMER = "@"

_EVENT, _MESSAGE = notification_events.c, notification_messages.c
_RANK = case((_EVENT.severity == "critical", 2), (_EVENT.severity == "warning", 1), else_=0)
_WAITS = _EVENT.message_id.is_(None)
_IS_OPEN = _MESSAGE.sent_at.is_(None) & _MESSAGE.given_up_at.is_(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationEvent:
    """One change of an alert that a channel is to be notified of.

    Attributes:
        change: ``opened``, ``raised``, ``unacknowledged`` or ``resolved``.
        at: When it happened, in seconds since the epoch.
        due_at: When it may be sent: later than ``at`` for an escalation.
        instead_of: The channel that failed, where this one is the fallback.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEvents:
    """The events that are due on a channel and in no message yet; ``rank`` is that of the most severe."""

    channel: str
    since: float
    rank: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMessage:
    """A message that is neither sent nor given up."""

    id: str
    channel: str
    created_at: float
    body: bytes
    attempts: int


class NotificationQueue:
    """Reads and writes events and messages."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self) -> bool:
        """Return whether this transaction may form and claim messages; of several collectors one at a time may."""
        return try_lock(self._connection, AdvisoryLock.NOTIFICATION_PLANNING)

    def add(self, events: Sequence[NotificationEvent]) -> None:
        """Write events; one that is there already stays as it is."""
        if events:
            dialect = sqlite if self._connection.dialect.name == "sqlite" else postgresql
            rows = [asdict(event) for event in events]
            self._connection.execute(dialect.insert(notification_events).on_conflict_do_nothing(), rows)

    def informed_channels(self, run_id: str, alert_id: str, *, now: float) -> set[str]:
        """Return the channels that were notified of an alert, or are about to be."""
        here = (_EVENT.run_id == run_id) & (_EVENT.alert_id == alert_id) & (_EVENT.change != "resolved")
        return set(self._connection.execute(select(_EVENT.channel).where(here, _EVENT.due_at <= now)).scalars())

    def remove_escalations(self, run_id: str, alert_id: str, *, now: float) -> None:
        """Remove the escalations of an alert that are not due yet."""
        here = (_EVENT.run_id == run_id) & (_EVENT.alert_id == alert_id) & _WAITS & (_EVENT.due_at > now)
        self._connection.execute(delete(notification_events).where(here))

    def remove_waiting(self, run_id: str, alert_id: str) -> None:
        """Remove what is in no message yet of an alert that was silenced, escalations included."""
        here = (_EVENT.run_id == run_id) & (_EVENT.alert_id == alert_id) & _WAITS
        self._connection.execute(delete(notification_events).where(here))

    def remove_answered_escalations(self, *, now: float) -> None:
        """Remove the escalations that are due on alerts that somebody has acknowledged, or that have changed since."""
        unanswered = exists().where(
            alerts.c.run_id == _EVENT.run_id,
            alerts.c.id == _EVENT.alert_id,
            alerts.c.state == "firing",
            alerts.c.acknowledged_at.is_(None),
            alerts.c.severity == _EVENT.severity,
        )
        due = _WAITS & (_EVENT.change == "unacknowledged") & (_EVENT.due_at <= now)
        self._connection.execute(delete(notification_events).where(due, ~unanswered))

    def waiting(self, *, now: float) -> list[WaitingEvents]:
        """Return what is due on each channel that has no open message."""
        busy = select(_MESSAGE.channel).where(_IS_OPEN)
        query = (
            select(_EVENT.channel, func.min(_EVENT.due_at), func.max(_RANK), func.count())
            .where(_WAITS, _EVENT.due_at <= now, _EVENT.channel.not_in(busy))
            .group_by(_EVENT.channel)
        )
        return [
            WaitingEvents(channel=channel, since=since, rank=rank, number=number)
            for channel, since, rank, number in self._connection.execute(query)
        ]

    def has_due(self, channels: Collection[str], *, now: float) -> bool:
        """Return whether a message could be formed or delivered on any of some channels."""
        events = select(_EVENT.alert_id).where(_WAITS, _EVENT.due_at <= now, _EVENT.channel.in_(channels)).limit(1)
        is_due = _IS_OPEN & (_MESSAGE.next_attempt_at <= now) & _MESSAGE.channel.in_(channels)
        messages = select(_MESSAGE.id).where(is_due).limit(1)
        return any(self._connection.execute(query).first() is not None for query in (events, messages))

    def recent(self, channel: str, *, since: float) -> list[tuple[float, str]]:
        """Return when the messages of a channel were formed since a time, with their severities, the oldest first."""
        query = select(_MESSAGE.created_at, _MESSAGE.severity).where(
            _MESSAGE.channel == channel, _MESSAGE.created_at > since
        )
        return [(at, severity) for at, severity in self._connection.execute(query.order_by(_MESSAGE.created_at))]

    def form(self, message_id: str, channel: str, *, severity: str, now: float) -> int:
        """Put all events that are due on a channel into a new message, and return their number; 0 if there is none.

        Its body follows by `set_body` in the same transaction.
        """
        message = {
            "id": message_id, "channel": channel, "created_at": now, "severity": severity, "events": 0, "body": b"",
            "attempts": 0, "next_attempt_at": now,
        }  # fmt: skip
        self._connection.execute(insert(notification_messages), message)
        due = _WAITS & (_EVENT.channel == channel) & (_EVENT.due_at <= now)
        number = self._connection.execute(update(notification_events).where(due), {"message_id": message_id}).rowcount
        if not number:  # another transaction has removed meanwhile what waited
            self._connection.execute(delete(notification_messages).where(_MESSAGE.id == message_id))
        return number

    def add_notice(self, message_id: str, channel: str, body: bytes, *, severity: str, now: float) -> None:
        """Write a message that is about no alert, with its body."""
        message = {
            "id": message_id, "channel": channel, "created_at": now, "severity": severity, "events": 0, "body": body,
            "attempts": 0, "next_attempt_at": now,
        }  # fmt: skip
        self._connection.execute(insert(notification_messages), message)

    def notices_since(self, channel: str, *, severity: str, since: float) -> int:
        """Return how many messages of a severity were written since a time for a channel of any earlier version."""
        is_notice = _MESSAGE.channel.startswith(f"{channel}{FORMER}", autoescape=True)
        here = is_notice & (_MESSAGE.severity == severity) & (_MESSAGE.created_at > since)
        return int(self._connection.execute(select(func.count()).where(here)).scalar_one())

    def former_channels(self) -> list[str]:
        """Return the channels of earlier versions, as they stand in the queue, that have an open message."""
        query = select(_MESSAGE.channel).where(_IS_OPEN, _MESSAGE.channel.contains(FORMER, autoescape=True)).distinct()
        return list(self._connection.execute(query).scalars())

    def set_body(self, message_id: str, body: bytes, *, events: int) -> None:
        """Write the body of a message that was formed."""
        self._update(message_id, {"body": body, "events": events})

    def counts(self, message_id: str) -> dict[str, Any]:
        """Count what a message is about.

        Returns:
            ``alerts`` and ``runs`` as numbers; ``changes``, ``kinds`` and ``projects`` as numbers of alerts by name.
        """
        here = _EVENT.message_id == message_id
        number = func.count(_EVENT.alert_id.distinct())
        totals = select(number, func.count(_EVENT.run_id.distinct())).where(here)
        alert_count, run_count = self._connection.execute(totals).one()
        found: dict[str, Any] = {"alerts": alert_count, "runs": run_count}
        joined = notification_events.join(runs, runs.c.id == _EVENT.run_id)
        grouped: dict[str, ColumnElement[Any]] = {
            "changes": _EVENT.change, "kinds": _EVENT.kind, "projects": runs.c.project
        }  # fmt: skip
        for name, column in grouped.items():
            query = select(column, number).select_from(joined).where(here).group_by(column).order_by(number.desc())
            found[name] = {str(key): count for key, count in self._connection.execute(query.limit(ROWS_READ))}
        return found

    def details(self, message_id: str) -> list[dict[str, Any]]:
        """Return the first events of a message with their alerts and runs, the most severe first, then the oldest."""
        query = (
            select(
                _EVENT.change, _EVENT.instead_of, _EVENT.severity.label("event_severity"), alerts,
                runs.c.name.label("run"), runs.c.project,
            )
            .join(alerts, (alerts.c.run_id == _EVENT.run_id) & (alerts.c.id == _EVENT.alert_id))
            .join(runs, runs.c.id == _EVENT.run_id)
            .where(_EVENT.message_id == message_id)
            .order_by(_RANK.desc(), _EVENT.at, _EVENT.alert_id)
            .limit(ROWS_READ)
        )  # fmt: skip
        return [row_fields(row) for row in self._connection.execute(query).mappings()]

    def claim(self, *, channels: Collection[str], now: float, until: float) -> list[OpenMessage]:
        """Claim the messages that are due on some channels, so that no other collector delivers them meanwhile."""
        is_free = or_(_MESSAGE.claimed_until.is_(None), _MESSAGE.claimed_until <= now)
        query = select(_MESSAGE.id, _MESSAGE.channel, _MESSAGE.created_at, _MESSAGE.body, _MESSAGE.attempts).where(
            _IS_OPEN, is_free, _MESSAGE.next_attempt_at <= now, _MESSAGE.channel.in_(channels)
        )
        found = [OpenMessage(**row) for row in self._connection.execute(query).mappings()]
        for message in found:
            self._update(message.id, {"claimed_until": until})
        return found

    def release(self, message_id: str | None = None) -> None:
        """End the claim on a message, or all claims where no other collector uses the database."""
        here = _IS_OPEN if message_id is None else _MESSAGE.id == message_id
        self._connection.execute(update(notification_messages).where(here), {"claimed_until": None})

    def mark_sent(self, message_id: str, *, now: float) -> None:
        """Record that a receiver has accepted a message; what it held of runs is removed."""
        self._update(message_id, {"sent_at": now, "claimed_until": None, "body": b"", "error": None})

    def mark_failed(self, message_id: str, *, error: str, attempts: int, next_attempt_at: float) -> None:
        """Record that an attempt has failed, and when the next is due."""
        values = {"error": error, "attempts": attempts, "next_attempt_at": next_attempt_at, "claimed_until": None}
        self._update(message_id, values)

    def give_up(self, message_id: str, *, error: str, now: float) -> None:
        """Record that a message is not tried again."""
        self._update(message_id, {"given_up_at": now, "claimed_until": None, "body": b"", "error": error})

    def pass_on(self, message: OpenMessage, *, to: str, now: float) -> int:
        """Write the events of a message, and those that wait behind it, for another channel as well.

        Returns:
            How many the other channel did not have yet.
        """
        own = (_EVENT.message_id == message.id) | (_WAITS & (_EVENT.due_at <= now))
        columns = [column for column in notification_events.c if column.name != "message_id"]
        query = select(*columns).where(_EVENT.channel == message.channel, own)
        moved = {"channel": to, "due_at": now, "instead_of": message.channel}
        events = [NotificationEvent(**(dict(row) | moved)) for row in self._connection.execute(query).mappings()]
        before = self._count_of(to)
        self.add(events)
        self._update(message.id, {"fallback_at": now})
        return self._count_of(to) - before

    def remove_unknown_channels(self, known: Collection[str], *, now: float) -> int:
        """Remove what waits for channels that the file no longer has; return the number of events."""
        gone = _IS_OPEN & _MESSAGE.channel.not_in(known)
        values = {"given_up_at": now, "body": b"", "error": "the channel is no longer set up"}
        self._connection.execute(update(notification_messages).where(gone), values)
        waiting = _WAITS & _EVENT.channel.not_in(known)
        return self._connection.execute(delete(notification_events).where(waiting)).rowcount

    def remove_old(self, *, before: float) -> int:
        """Remove some messages that were sent or given up before a time, with their events; return their number.

        Messages that wait and whose runs were all deleted are removed as well.
        """
        held = exists().where(_EVENT.message_id == _MESSAGE.id)
        is_notice = _MESSAGE.channel.contains(FORMER, autoescape=True)
        self._connection.execute(delete(notification_messages).where(_IS_OPEN, ~held, ~is_notice))
        over = or_(_MESSAGE.sent_at < before, _MESSAGE.given_up_at < before)
        some = select(_MESSAGE.id).where(over).limit(REMOVED_AT_ONCE)
        found = list(self._connection.execute(some).scalars())
        self._connection.execute(delete(notification_events).where(_EVENT.message_id.in_(found)))
        self._connection.execute(delete(notification_messages).where(_MESSAGE.id.in_(found)))
        return len(found)

    def limit_times(self, now: float) -> None:
        """Set every time to ``now`` that lies ahead of it and that a delay counts from; what was delayed stays so."""
        begun_later = {"due_at": _EVENT.due_at - (_EVENT.at - now), "at": now}
        self._connection.execute(update(notification_events).where(_EVENT.at > now).values(begun_later))
        for name in ("created_at", "next_attempt_at", "claimed_until", "sent_at", "given_up_at"):
            self._connection.execute(update(notification_messages).where(_MESSAGE[name] > now), {name: now})

    def statuses(self, *, now: float) -> dict[str, dict[str, Any]]:
        """Return by channel what waits, since when, and how its messages went; channels without rows are left out."""
        query = (
            select(_EVENT.channel, func.count(), func.min(_EVENT.due_at))
            .where(_EVENT.due_at <= now, or_(_WAITS, _EVENT.message_id.in_(select(_MESSAGE.id).where(_IS_OPEN))))
            .group_by(_EVENT.channel)
        )
        found: dict[str, dict[str, Any]] = {}
        for channel, number, since in self._connection.execute(query):
            found.setdefault(channel, {}).update(waiting=number, waiting_since=since)
        newest = (
            select(_MESSAGE.channel, func.max(_MESSAGE.sent_at), func.max(_MESSAGE.given_up_at))
            .group_by(_MESSAGE.channel)
        )  # fmt: skip
        for channel, sent_at, given_up_at in self._connection.execute(newest):
            found.setdefault(channel, {}).update(last_sent_at=sent_at, last_given_up_at=given_up_at)
        failing = select(_MESSAGE.channel, _MESSAGE.attempts, _MESSAGE.error).where(_IS_OPEN, _MESSAGE.attempts > 0)
        for channel, attempts, error in self._connection.execute(failing):
            found.setdefault(channel, {}).update(failed_attempts=attempts, last_error=error)
        return found

    def failing(self, channels: Collection[str]) -> set[str]:
        """Return those of some channels that have not accepted a message several times, or whose last was given up."""
        tried = select(_MESSAGE.channel).where(_IS_OPEN, _MESSAGE.attempts >= FAILING_ATTEMPTS)
        outcome = (
            select(_MESSAGE.channel)
            .where(_MESSAGE.channel.in_(channels))
            .group_by(_MESSAGE.channel)
            .having(func.max(_MESSAGE.given_up_at) > func.coalesce(func.max(_MESSAGE.sent_at), 0.0))
        )
        found = {name for query in (tried, outcome) for name in self._connection.execute(query).scalars()}
        return found & set(channels)

    def _count_of(self, channel: str) -> int:
        return int(self._connection.execute(select(func.count()).where(_EVENT.channel == channel)).scalar_one())

    def _update(self, message_id: str, values: Mapping[str, Any]) -> None:
        self._connection.execute(update(notification_messages).where(_MESSAGE.id == message_id), dict(values))
