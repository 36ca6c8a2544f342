"""The status of each channel: the events and messages that wait, the results of its messages, and whether it fails."""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, func, or_, select

from monitor_server.store.repositories.notifications.events import EVENT, IN_NO_MESSAGE
from monitor_server.store.repositories.notifications.messages import IS_OPEN, MESSAGE

__all__ = ["FAILING_ATTEMPTS", "ChannelStatuses"]

# A single failure may be a restart of the receiver.
FAILING_ATTEMPTS: Final = 3


class ChannelStatuses:
    """Reads the state of channels."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def statuses(self, *, now: float) -> dict[str, dict[str, Any]]:
        """Return the waiting events and the results of messages, by channel; channels without rows are left out."""
        query = (
            select(EVENT.channel, func.count(), func.min(EVENT.due_at))
            .where(EVENT.due_at <= now, or_(IN_NO_MESSAGE, EVENT.message_id.in_(select(MESSAGE.id).where(IS_OPEN))))
            .group_by(EVENT.channel)
        )
        found: dict[str, dict[str, Any]] = {}
        for channel, number, since in self._connection.execute(query):
            found.setdefault(channel, {}).update(waiting=number, waiting_since=since)
        newest = (
            select(MESSAGE.channel, func.max(MESSAGE.sent_at), func.max(MESSAGE.given_up_at))
            .group_by(MESSAGE.channel)
        )  # fmt: skip
        for channel, sent_at, given_up_at in self._connection.execute(newest):
            found.setdefault(channel, {}).update(last_sent_at=sent_at, last_given_up_at=given_up_at)
        failing = select(MESSAGE.channel, MESSAGE.attempts, MESSAGE.error).where(IS_OPEN, MESSAGE.attempts > 0)
        for channel, attempts, error in self._connection.execute(failing):
            found.setdefault(channel, {}).update(failed_attempts=attempts, last_error=error)
        return found

    def failing(self, channels: Collection[str]) -> set[str]:
        """Return those of some channels that have refused a message several times, or whose last one was given up."""
        tried = select(MESSAGE.channel).where(IS_OPEN, MESSAGE.attempts >= FAILING_ATTEMPTS)
        outcome = (
            select(MESSAGE.channel)
            .where(MESSAGE.channel.in_(channels))
            .group_by(MESSAGE.channel)
            .having(func.max(MESSAGE.given_up_at) > func.coalesce(func.max(MESSAGE.sent_at), 0.0))
        )
        found = {name for query in (tried, outcome) for name in self._connection.execute(query).scalars()}
        return found & set(channels)
