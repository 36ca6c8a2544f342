"""Lengths of time in seconds, and a time as texts state it."""

from datetime import UTC, datetime
from typing import Final

__all__ = ["DAY_SECONDS", "HOUR_SECONDS", "LONGEST_SILENCE_SECONDS", "MINUTE_SECONDS", "spell_time"]

MINUTE_SECONDS: Final = 60.0
HOUR_SECONDS: Final = 3_600.0
DAY_SECONDS: Final = 86_400.0
LONGEST_SILENCE_SECONDS: Final = 366 * DAY_SECONDS


def spell_time(seconds: float) -> str:
    """Return a time, in seconds since 1970, to the minute.

    >>> spell_time(1.7e9), spell_time(1e300)
    ('2023-11-14 22:13 UTC', '1e+300 s after 1970')
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # a trainer's clock may send any number
        return f"{seconds:g} s after 1970"
