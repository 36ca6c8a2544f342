"""Saving and restoring objects whose attributes are numbers, windows and other such objects.

A detector's state is its public attributes. Restoring fills a newly constructed object. The constructor sets attributes
with a leading underscore (thresholds, rates, bounds, window lengths, shared parts), which are never read from a saved
state, so that a newer version's rules apply to current runs.
"""

from collections import deque
from collections.abc import Mapping
from types import NoneType
from typing import Any, Self

__all__ = ["Stateful", "find_floor", "take_newest"]

# Nearly all attributes are of these types; the state is written after every slice.
PLAIN = frozenset({float, int, str, bool, NoneType})


class Stateful:
    """Base of objects that save their public attributes as JSON values and restore them bit for bit.

    >>> class Counter(Stateful):
    ...     def __init__(self) -> None:
    ...         self.count = 0
    >>> counter = Counter()
    >>> counter.count = 3
    >>> counter.state(), Counter.from_state(counter.state()).count
    ({'count': 3}, 3)
    """

    def state(self) -> dict[str, Any]:
        """Return the complete state for a restart; non-finite floats stay floats."""
        return {
            name: value if type(value := getattr(self, name)) in PLAIN else _dump(value) for name in _public_names(self)
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; attributes that it does not contain keep their values."""
        for name in _public_names(self):
            if name in state:
                setattr(self, name, _restore(getattr(self, name), state[name]))

    def take_back(self, rows: int, left: int) -> None:
        """Forget the values of the newest rows, because a rewind replaces them; by default in every part.

        Args:
            rows: Number of rows that are replaced. A window loses as many of its values, although a row may have added
                none to it.
            left: Number of rows of the run before them.
        """
        for name in _public_names(self):
            value = getattr(self, name)
            for part in value.values() if isinstance(value, dict) else (value,):
                if isinstance(part, Stateful):
                    part.take_back(rows, left)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Construct an object and restore a saved state into it."""
        instance = cls()
        instance.load(state)
        return instance


def take_newest(window: deque[Any], rows: int) -> list[Any]:
    """Remove the newest values of a window, and return them.

    >>> window = deque([1.0, 2.0, 3.0])
    >>> take_newest(window, 2), list(window)
    ([3.0, 2.0], [1.0])
    """
    return [window.pop() for _ in range(min(rows, len(window)))]


def find_floor(floor: float, left: deque[float], taken: list[float]) -> float:
    """Return the lowest of 0 and a run's remaining values; older values are known only by the floor.

    >>> find_floor(-5.0, deque([0.5, -1.0]), [0.4]), find_floor(-5.0, deque([0.5, -1.0]), [-5.0])
    (-5.0, -1.0)
    """
    return floor if left and floor < min(taken, default=0.0) else min(0.0, *left, 0.0)


_NAMES: dict[type[Stateful], tuple[str, ...]] = {}


def _public_names(thing: Stateful) -> tuple[str, ...]:
    """Return the names of the public attributes, which are the same for all objects of a class after construction.

    They are read from the first object of a class only. CPython 3.11 makes a dictionary of an object whose attributes
    are listed, and keeps it: a step of an engine with such objects then takes a fifth longer.
    """
    if type(thing) not in _NAMES:
        _NAMES[type(thing)] = tuple(name for name in vars(thing) if name[0] != "_")
    return _NAMES[type(thing)]


def _dump(value: Any) -> Any:  # noqa: ANN401 - walks any state tree
    if type(value) in PLAIN:
        return value
    if isinstance(value, Stateful):
        return value.state()
    if isinstance(value, deque):
        return list(value)  # a window contains only numbers
    if isinstance(value, dict):
        return {key: _dump(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_dump(item) for item in value]
    return value


def _restore(current: Any, saved: Any) -> Any:  # noqa: ANN401 - walks any state tree
    if isinstance(current, Stateful):
        current.load(saved)
        return current
    if isinstance(current, deque):
        return deque(saved, maxlen=current.maxlen)
    if isinstance(current, dict) and all(isinstance(item, Stateful) for item in current.values()) and current:
        return {key: _restore(item, saved[key]) if key in saved else item for key, item in current.items()}
    return _dump(saved)  # a copy, because the object changes its lists, and the saved state may be used again
