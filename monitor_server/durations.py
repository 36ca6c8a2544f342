"""Lengths of time in seconds."""

from typing import Final

__all__ = ["DAY_SECONDS", "HOUR_SECONDS", "LONGEST_SILENCE_SECONDS", "MINUTE_SECONDS"]

MINUTE_SECONDS: Final = 60.0
HOUR_SECONDS: Final = 3_600.0
DAY_SECONDS: Final = 86_400.0
LONGEST_SILENCE_SECONDS: Final = 366 * DAY_SECONDS
