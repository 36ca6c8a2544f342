"""The rules of names and whole numbers in a record, which the SDK keeps and the collector checks."""

from typing import Final

__all__ = ["LARGEST_INTEGER", "LONGEST_NAME_CHARS", "MAX_RECORD_SIGNALS", "is_clean_name"]

LARGEST_INTEGER: Final = 2**53
"""The largest step, sequence number or version; beyond it JSON numbers are not exact."""
LONGEST_NAME_CHARS: Final = 200
"""The longest name of a signal or a data version, unless the collector's settings state a lower limit."""
MAX_RECORD_SIGNALS: Final = 10_000
"""The largest number of scalars and summaries of one record together."""


def is_clean_name(name: str) -> bool:
    """Whether a name is printable, not empty and without outer blanks; how long it may be is a setting.

    >>> is_clean_name("reward/mean"), is_clean_name(" reward/mean"), is_clean_name("")
    (True, False, False)
    """
    return bool(name) and name.isprintable() and name == name.strip()
