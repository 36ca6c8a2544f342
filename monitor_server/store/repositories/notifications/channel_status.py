"""The status of each channel: the events and messages that wait, its newest results, and whether it fails."""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from monitor_server.store.repositories.notifications.events import EVENT, IN_NO_MESSAGE, IS_HELD
from monitor_server.store.repositories.notifications.messages import IS_OPEN, MESSAGE
from monitor_server.store.tables import channel_results

__all__ = ["FAILING_ATTEMPTS", "ChannelStatuses"]

# A single failure may be a restart of the receiver.
FAILING_ATTEMPTS: Final = 3
RESULT: Final = channel_results.c


class ChannelStatuses:
    """Reads the state of channels, and writes the results of their messages."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def statuses(self, *, now: float) -> dict[str, dict[str, Any]]:
        """Return the waiting events and the results of messages, by channel; channels without rows are left out."""
        query = (
            select(EVENT.channel, func.count(), func.min(EVENT.due_at))
            .where(
                EVENT.due_at <= now,
                or_(IN_NO_MESSAGE & ~IS_HELD, EVENT.message_id.in_(select(MESSAGE.id).where(IS_OPEN))),
            )
            .group_by(EVENT.channel)
        )
        found: dict[str, dict[str, Any]] = {}
        for channel, number, since in self._connection.execute(query):
            found.setdefault(channel, {}).update(waiting=number, waiting_since=since)
        results = select(RESULT.channel, RESULT.sent_at, RESULT.given_up_at, RESULT.error)
        for channel, sent_at, given_up_at, error in self._connection.execute(results):
            newest = {"last_sent_at": sent_at, "last_given_up_at": given_up_at, "last_error": error}
            found.setdefault(channel, {}).update(newest)
        failing = select(MESSAGE.channel, MESSAGE.attempts, MESSAGE.error).where(IS_OPEN, MESSAGE.attempts > 0)
        for channel, attempts, error in self._connection.execute(failing):
            found.setdefault(channel, {}).update(failed_attempts=attempts, last_error=error)
        return found

    def failing(self, channels: Collection[str]) -> dict[str, str]:
        """Return the reasons of those channels that have refused a message several times, or whose last was given up.

        Args:
            channels: The names to which the answer is limited.
        """
        given_up = select(RESULT.channel, RESULT.error).where(RESULT.error.is_not(None))
        tried = select(MESSAGE.channel, MESSAGE.error).where(IS_OPEN, MESSAGE.attempts >= FAILING_ATTEMPTS)
        return {
            channel: error
            for query in (given_up, tried)
            for channel, error in self._connection.execute(query)
            if channel in channels
        }

    def record_sent(self, channel: str, *, now: float) -> None:
        """Record that a channel has accepted a message."""
        self._record(channel, {"sent_at": now, "error": None})

    def record_given_up(self, channel: str, *, error: str, now: float) -> None:
        """Record that a message to a channel is given up."""
        self._record(channel, {"given_up_at": now, "error": error})

    def forget_failure(self, channel: str) -> None:
        """Forget that a message was given up, because the channel has changed, or has accepted a test."""
        self._connection.execute(update(channel_results).where(RESULT.channel == channel), {"error": None})

    def settings(self, channel: str) -> str | None:
        """Return the digest of the settings with which a channel began to fail; None if none is recorded."""
        return self._connection.execute(select(RESULT.settings).where(RESULT.channel == channel)).scalar()

    def record_settings(self, channel: str, digest: str) -> None:
        """Record the digest of the settings with which a channel begins to fail."""
        self._record(channel, {"settings": digest})

    def remove_unknown_channels(self, known: Collection[str]) -> None:
        """Remove the results of channels that the file no longer has; another channel may get the name."""
        self._connection.execute(delete(channel_results).where(RESULT.channel.not_in(known)))

    def limit_times(self, now: float) -> None:
        """Set every time that lies in the future to ``now``."""
        for name in ("sent_at", "given_up_at"):
            self._connection.execute(update(channel_results).where(RESULT[name] > now), {name: now})

    def _record(self, channel: str, values: dict[str, Any]) -> None:
        dialect = sqlite if self._connection.dialect.name == "sqlite" else postgresql
        row = dialect.insert(channel_results).values(channel=channel, **values)
        self._connection.execute(row.on_conflict_do_update(index_elements=["channel"], set_=values))
