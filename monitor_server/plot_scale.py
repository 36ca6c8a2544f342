"""The vertical scale of every plot: the share of its range at which a value lies, its bounds, and bars of text."""

from typing import Final

__all__ = ["ASCII_BARS", "BARS", "share_of_range", "spell_value"]

BARS: Final = "▁▂▃▄▅▆▇█"
ASCII_BARS: Final = "_.-=+*#@"
# Values between these are written as whole numbers, because 1.09e+03 tokens is hard to read.
LEAST_WHOLE, MOST_WHOLE = 999.5, 1e6


def share_of_range(value: float, low: float, high: float) -> float:
    """Return the place of a finite value between two finite bounds, from 0 to 1; 0 if the bounds are equal."""
    # The difference of the largest floats is infinite, but that of their halves is finite.
    return (value / 2 - low / 2) / ((high / 2 - low / 2) or 1.0)


def spell_value(value: float) -> str:
    """Return a value of a signal with three digits, and a length of some thousand tokens as a whole number.

    >>> spell_value(0.12345), spell_value(1086.4), spell_value(1e7)
    ('0.123', '1,086', '1e+07')
    """
    return f"{value:,.0f}" if LEAST_WHOLE <= abs(value) < MOST_WHOLE else f"{value:.3g}"
