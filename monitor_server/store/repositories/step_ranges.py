"""Divides the step numbers of a run into ranges of equal length, of which thinning keeps the first step each."""

from collections.abc import Iterable
from itertools import pairwise

__all__ = ["beyond_first"]


def beyond_first(numbers: Iterable[int], stride: int) -> list[int]:
    """Return those of ascending step numbers that are not the first of their range of ``stride`` numbers."""
    return [number for before, number in pairwise(numbers) if before // stride == number // stride]
