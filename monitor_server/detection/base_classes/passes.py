"""Rows of a further pass over the same responses: they repeat what was sampled and tell nothing new of it."""

from collections.abc import Mapping, Sequence

__all__ = ["Pass", "is_further_pass", "read_pass"]

Pass = list[float | None]
REWARD, LENGTH, ENTROPY = "reward/mean", "length/mean", "entropy/mean"
SAME = 0.02  # an update or two changes the entropy of the same responses by less


def read_pass(finite: Mapping[str, float]) -> Pass:
    """Return what tells the responses of a row: their reward, length and entropy, None where it is not observed."""
    get = finite.get
    return [get(REWARD), get(LENGTH), get(ENTROPY)]


def is_further_pass(now: Sequence[float | None], before: Sequence[float | None]) -> bool:
    """Return whether two rows hold the same reward and length, and the same entropy but for 2 %.

    >>> is_further_pass([0.5, 120.25, 0.31], [0.5, 120.25, 0.312])
    True
    >>> is_further_pass([0.5, None, 0.31], [0.5, None, 0.31])
    False
    """
    if not before or now[0] != before[0]:  # which decides nearly every row
        return False
    reward, length, entropy = now
    if reward is None or length is None or length != before[1]:
        return False
    earlier = before[2]
    return entropy is None or earlier is None or abs(entropy - earlier) < SAME * abs(earlier)
