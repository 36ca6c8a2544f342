"""Saving and restoring: any object whose attributes are numbers, windows and other such objects.

Not responsible for meaning: a detector's state is simply its attributes. Restoring fills a freshly constructed object,
so what a constructor fixes (window lengths, which parts there are, and every attribute with a leading underscore:
thresholds, rates, bounds) is never read from a saved state, and a newer version's rules hold for runs under way.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Self

__all__ = ["Stateful"]


class Stateful:
    """Gives its attributes as JSON values and takes them back, bit for bit."""

    def state(self) -> dict[str, Any]:
        """Give everything needed to go on after a restart; non-finite floats stay floats."""
        return {name: _dump(value) for name, value in vars(self).items() if not name.startswith("_")}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over a saved state; attributes that it does not name keep their values."""
        for name, value in vars(self).items():
            if name in state and not name.startswith("_"):
                setattr(self, name, _restore(value, state[name]))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from a saved state."""
        instance = cls()
        instance.load(state)
        return instance


def _dump(value: Any) -> Any:  # noqa: ANN401 - walks any state tree
    if isinstance(value, Stateful):
        return value.state()
    if isinstance(value, dict):
        return {key: _dump(item) for key, item in value.items()}
    if isinstance(value, deque | list | tuple):
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
    return saved
