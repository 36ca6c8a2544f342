"""Medians with their range over seeds, as cells of a table."""

from collections.abc import Sequence
from statistics import median

__all__ = ["difference_and_range", "median_and_range", "signed_whole"]


def median_and_range(values: Sequence[float]) -> str:
    """Format the median of values with two decimals, and their range behind it."""
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def signed_whole(value: float) -> str:
    """Format a value with its sign and no decimals."""
    return f"{value:+.0f}".replace("-", "−")


def difference_and_range(values: Sequence[float]) -> str:
    """Format the median of differences by seed with their sign and three decimals, and their range behind it."""
    if not values:
        return "no seed in common"
    low, middle, high = (f"{value:+.3f}".replace("-", "−") for value in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"
