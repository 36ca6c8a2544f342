"""The rules of names and whole numbers, which the SDK keeps and the collector checks."""

from typing import Final

__all__ = [
    "EARLIEST_TIME",
    "LARGEST_INTEGER",
    "LONGEST_NAME_CHARS",
    "MAX_RECORD_SIGNALS",
    "find_largest_attempt",
    "is_clean_name",
]

LARGEST_INTEGER: Final = 2**53
"""The largest step, sequence number or version; beyond it JSON numbers are not exact."""
LONGEST_NAME_CHARS: Final = 200
"""The longest name of a signal or a data version, unless the collector's settings state a lower limit."""
MAX_RECORD_SIGNALS: Final = 10_000
"""The largest number of scalars and summaries of one record together."""
# An attempt is a small number or the time of its launch in ms. A time in µs or ns, or a random number, is far above
# this limit. A clock that is wrong by months, here or in the trainer, stays below it.
ATTEMPT_AHEAD_SECONDS: Final = 366 * 86_400
EARLIEST_TIME: Final = 1_790_000_000.0
"""21 September 2026, in seconds since the epoch: a clock that shows less than another's later time is wrong, and must
neither refuse an attempt of a machine whose clock is right nor replace stored times."""


def find_largest_attempt(now: float) -> int:
    """Return the largest attempt that is valid at a time in seconds since the epoch."""
    return min(int((max(now, EARLIEST_TIME) + ATTEMPT_AHEAD_SECONDS) * 1000), LARGEST_INTEGER)


def is_clean_name(name: str) -> bool:
    """Whether a name is printable, not empty and without outer blanks; how long it may be is a setting.

    >>> is_clean_name("reward/mean"), is_clean_name(" reward/mean"), is_clean_name("")
    (True, False, False)
    """
    return bool(name) and name.isprintable() and name == name.strip()
