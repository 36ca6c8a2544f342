"""Computes the times of a channel's next message and of the next attempt after a failure, from numbers alone."""

from collections.abc import Sequence
from typing import Final

from monitor_server.detection.protocol import Severity
from monitor_server.durations import HOUR_SECONDS
from monitor_server.notifications.configuration.tables import Grouping, Limits

__all__ = ["next_message_at", "retry_delay"]

FIRST_RETRY_SECONDS: Final = 2.0
# Retries at most this far apart find a receiver within minutes of its return.
LONGEST_RETRY_SECONDS: Final = 300.0


def next_message_at(
    *, since: float, rank: int, recent: Sequence[tuple[float, str]], grouping: Grouping, limits: Limits | None
) -> float:
    """Return the earliest time at which the events that wait for a channel may become a message.

    The first message is sent after a short wait, in which alerts of one cause gather. Later events wait until the
    window of the last message is over, unless they are more severe than everything in that message: a warning does not
    delay a critical alert.

    Args:
        since: The time at which the oldest event became due.
        rank: The rank of the most severe event.
        recent: The times of the messages of the last hour, or of the last window, with their severities, the oldest
            first.
        grouping: The times for gathering.
        limits: The number of messages in an hour; None if it does not apply to these events.
    """
    at = since + grouping.wait_seconds
    if recent:
        last, severity = recent[-1]
        if rank <= Severity(severity).rank:
            at = max(at, last + grouping.window_seconds)
        if limits is not None and len(recent) >= limits.messages_per_hour:
            at = max(at, recent[-limits.messages_per_hour][0] + HOUR_SECONDS)
    return at


def retry_delay(attempts: int, *, jitter: float) -> float:
    """Return the wait after a number of failed attempts: twice as long each time, at most five minutes.

    Args:
        attempts: The number of failed attempts, at least 1.
        jitter: Between 0 and 1; a shorter delay is multiplied by 0.5 to 1.5, so that retries to many receivers spread
            out.
    """
    exponent = min(attempts - 1, 16)  # a larger exponent gives the longest delay as well
    return min(FIRST_RETRY_SECONDS * 2.0**exponent * (0.5 + jitter), LONGEST_RETRY_SECONDS)
