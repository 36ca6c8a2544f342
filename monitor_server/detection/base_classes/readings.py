"""Reading one signal out of a step: only values that were observed, are finite and are small enough to square."""

from collections.abc import Mapping, Sequence

__all__ = ["LARGEST", "finite", "first_finite", "list_missing"]

NAN = float("nan")
LARGEST = 1e100  # sums of squares overflow beyond it; such a number is not a measurement


def finite(signals: Mapping[str, float], name: str) -> float | None:
    """Return a signal's value, or None if it was not observed or is not finite.

    >>> finite({"reward/mean": 0.5}, "reward/mean"), finite({"reward/mean": float("nan")}, "reward/mean")
    (0.5, None)
    """
    value = signals.get(name)
    return value if value is not None and -LARGEST < value < LARGEST else None  # a comparison with NaN is false


def first_finite(signals: Mapping[str, float], names: Sequence[str]) -> tuple[str, float] | None:
    """Return the name and value of the first of several signals that was observed with a finite value."""
    for name in names:
        value = signals.get(name)
        if value is not None and -LARGEST < value < LARGEST:
            return name, value
    return None


def list_missing(signals: Mapping[str, float], names: Sequence[str]) -> list[str]:
    """Return those of several signals that were not observed with a finite value.

    >>> list_missing({"reward/mean": 0.5, "grad/norm": float("inf")}, ["reward/mean", "grad/norm", "lr"])
    ['grad/norm', 'lr']
    """
    return [name for name in names if not -LARGEST < signals.get(name, NAN) < LARGEST]
