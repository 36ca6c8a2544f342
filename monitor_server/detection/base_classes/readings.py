"""Functions that read signals from the finite values of a step, `Observation.finite`."""

from collections.abc import Mapping, Sequence

__all__ = ["first_finite", "list_missing"]


def first_finite(finite: Mapping[str, float], names: Sequence[str]) -> tuple[str, float] | None:
    """Return the name and value of the first of several signals that was observed with a finite value."""
    for name in names:
        value = finite.get(name)
        if value is not None:
            return name, value
    return None


def list_missing(finite: Mapping[str, float], names: Sequence[str]) -> list[str]:
    """Return the given signals that were not observed with a finite value.

    >>> list_missing({"reward/mean": 0.5}, ["reward/mean", "grad/norm", "lr"])
    ['grad/norm', 'lr']
    """
    return [name for name in names if name not in finite]
