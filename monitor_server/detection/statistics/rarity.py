"""Computes the improbability of the newest rows in an unchanged run, from ranks, without assuming a distribution."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice, repeat
from operator import ge, le

__all__ = ["MOST_ROWS", "is_rarer", "rarity"]

MOST_ROWS = 6  # the number of newest rows that are compared
LEAST = 4  # the number of rows for the comparison


def rarity(values: Sequence[float], *, falls: bool, rows: Sequence[int] = range(1, MOST_ROWS)) -> float:
    """Return the smallest of ((c + 1) / (n + 2))^m over m: the lower, the more seldom a run has had such rows.

    Let y be the mildest of the newest m rows, and c the number of the n rows before them that are as extreme as y.
    (c + 1) / (n + 2) estimates the probability that one row is that extreme (Laplace's rule of succession; for c = 0 it
    is about the rank probability 1 / (n + 1) of exchangeable rows). The result is a score by ranks and not a bound of a
    probability. The m rows have the same rows before them, so the newest m of n + m exchangeable rows are the lowest
    with the probability m! n! / (n + m)!, which for n = 40 is 2 times the score for m = 2 and 107 times for m = 5. A
    reward that is 0 in one row of ten, as in small groups, has often been that low. Its robust deviation is 0, and
    would make every fall look significant.

    Args:
        values: The rows, oldest first.
        falls: Whether low values are extreme.
        rows: The values of m.

    Reference:
        Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World" (2005), section 7.1, for the ranks.

    >>> rarity([0.6, 0.7, 0.6, 0.5, 0.6, 0.7, 0.1, 0.1], falls=True)
    0.015625
    >>> rarity([0.6, 0.0, 0.6, 0.5, 0.0, 0.7, 0.0, 0.0], falls=True)
    0.140625
    """
    smallest, newest = 1.0, list(reversed(values))
    mildest = None
    for m, value in enumerate(islice(newest, max(rows)), start=1):
        before = len(newest) - m
        if before < LEAST:
            break
        mildest = value if mildest is None else (max(mildest, value) if falls else min(mildest, value))
        if m in rows:
            as_extreme = sum(map(le if falls else ge, newest[m:], repeat(mildest)))
            smallest = min(smallest, ((as_extreme + 1) / (before + 2)) ** m)
    return smallest


def is_rarer(values: Sequence[float], ordered: Sequence[float], bound: float, *, falls: bool) -> bool:
    """Return whether the `rarity` of the newest rows is below a bound, without computing more of it than necessary.

    Args:
        values: The rows, oldest first.
        ordered: The oldest rows in ascending order, as far as the caller has sorted them; the rest are few.
        bound: The bound.
        falls: Whether low values are extreme.

    >>> values = [0.6, 0.7, 0.6, 0.5, 0.6, 0.7, 0.1, 0.1]
    >>> is_rarer(values, sorted(values[:5]), 0.02, falls=True)
    True
    """
    count, rest = len(values), values[len(ordered) :]
    # The most rows come first, because a failure that has lasted for some rows is rarest by all of them.
    for m in range(min(MOST_ROWS - 1, count - LEAST), 0, -1):
        before = count - m
        mildest = max(values[-m:]) if falls else min(values[-m:])
        as_extreme = bisect_right(ordered, mildest) if falls else len(ordered) - bisect_left(ordered, mildest)
        if m >= len(rest):
            as_extreme -= m - len(rest)  # the newest rows are all as extreme
        else:
            as_extreme += len([1 for value in rest[:-m] if (value <= mildest if falls else value >= mildest)])
        if ((as_extreme + 1) / (before + 2)) ** m < bound:
            return True
        if (1 / (before + 2)) ** m >= bound:  # true even if no earlier row was as extreme, and fewer rows are not rarer
            return False
    return False
