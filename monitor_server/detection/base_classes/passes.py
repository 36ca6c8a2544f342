"""Rows of a further pass over the same responses: they repeat the sampled values and contain no new information."""

from collections.abc import Mapping, Sequence

__all__ = ["Pass", "is_further_pass", "read_pass"]

Pass = list[float | None]
REWARD, LENGTH, ENTROPY = "reward/mean", "length/mean", "entropy/mean"
SAME = 0.02  # one or two updates change the entropy of the same responses by less than this


def read_pass(finite: Mapping[str, float]) -> Pass:
    """Return the values that identify the responses of a row: reward, length and entropy, None if not observed."""
    get = finite.get
    return [get(REWARD), get(LENGTH), get(ENTROPY)]


def is_further_pass(now: Sequence[float | None], before: Sequence[float | None]) -> bool:
    """Return whether two rows have the same reward and length, and an entropy that differs by at most 2 %.

    >>> is_further_pass([0.5, 120.25, 0.31], [0.5, 120.25, 0.312])
    True
    >>> is_further_pass([0.5, None, 0.31], [0.5, None, 0.31])
    False
    """
    if not before or now[0] != before[0]:  # this comparison decides nearly every row
        return False
    reward, length, entropy = now
    if reward is None or length is None or length != before[1]:
        return False
    earlier = before[2]
    return entropy is None or earlier is None or abs(entropy - earlier) < SAME * abs(earlier)
