"""The vertical scale of every plot: the share of its range at which a value lies, and the bars of a line of text."""

from typing import Final

__all__ = ["ASCII_BARS", "BARS", "share_of_range"]

BARS: Final = "▁▂▃▄▅▆▇█"
ASCII_BARS: Final = "_.-=+*#@"


def share_of_range(value: float, low: float, high: float) -> float:
    """Return the place of a finite value between two finite bounds, from 0 to 1; 0 if the bounds are equal."""
    # The difference of the largest floats is infinite, but that of their halves is finite.
    return (value / 2 - low / 2) / ((high / 2 - low / 2) or 1.0)
