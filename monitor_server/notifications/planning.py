"""Computes when a channel's next message may be formed, and when a failed one is tried again, from numbers alone."""

from collections.abc import Sequence
from typing import Final

from monitor_server.detection.protocol import Severity
from monitor_server.durations import HOUR_SECONDS
from monitor_server.notifications.configuration.tables import Grouping, Limits

__all__ = ["next_message_at", "retry_delay"]

FIRST_RETRY_SECONDS: Final = 2.0
# So that a receiver that is back is found within minutes.
LONGEST_RETRY_SECONDS: Final = 300.0


def next_message_at(
    *, since: float, rank: int, recent: Sequence[tuple[float, str]], grouping: Grouping, limits: Limits
) -> float:
    """Return the time from which on the events that wait for a channel may become a message.

    The first message goes after a short wait, in which alerts of one cause gather. What follows waits until the window
    of the last message is over, unless it is more severe than everything in that message: a warning does not delay a
    critical alert. The limit of messages in an hour holds for all.

    Args:
        since: When the oldest event became due.
        rank: Of the most severe event.
        recent: When the messages of the last hour, or of the last window, were formed, with their severities, the
            oldest first.
        grouping: How long to gather.
        limits: How many messages an hour.
    """
    at = since + grouping.wait_seconds
    if recent:
        last, severity = recent[-1]
        if rank <= Severity(severity).rank:
            at = max(at, last + grouping.window_seconds)
        if len(recent) >= limits.messages_per_hour:
            at = max(at, recent[-limits.messages_per_hour][0] + HOUR_SECONDS)
    return at


def retry_delay(attempts: int, *, jitter: float) -> float:
    """Return how long to wait after a number of failed attempts: twice as long each time, at most five minutes.

    Args:
        attempts: How many have failed, at least 1.
        jitter: Between 0 and 1; the delay is multiplied by 0.5 to 1.5, so that receivers are not asked in step.
    """
    exponent = min(attempts - 1, 16)  # beyond, the delay is the longest anyway
    return min(FIRST_RETRY_SECONDS * 2.0**exponent, LONGEST_RETRY_SECONDS) * (0.5 + jitter)
