"""Formats numbers as cells of a table, with a minus sign that is as wide as a plus sign."""

from collections.abc import Sequence
from statistics import fmean, median

from trainer_hooks.reference.experiments.measures import observed

__all__ = ["difference_and_range", "format_signed", "mean_of_known", "median_and_range", "with_minus"]


def with_minus(value: float, form: str) -> str:
    """Format a value by a format specification."""
    return f"{value:{form}}".replace("-", "−")


def format_signed(value: float, digits: int) -> str:
    """Format a value with its sign and as many decimals."""
    return with_minus(value, f"+.{digits}f")


def mean_of_known(values: Sequence[float], form: str) -> str:
    """Format the mean of the steps that have a value; no response of a step may have been correct."""
    known = observed(values)
    return with_minus(fmean(known), form) if known else "none"


def median_and_range(values: Sequence[float]) -> str:
    """Format the median of values with two decimals, and their range behind it."""
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def difference_and_range(values: Sequence[float]) -> str:
    """Format the median of differences by seed with their sign and three decimals, and their range behind it."""
    if not values:
        return "no seed in common"
    low, middle, high = (format_signed(value, 3) for value in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"
