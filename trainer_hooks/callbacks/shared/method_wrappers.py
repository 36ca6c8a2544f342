"""Wraps methods of single objects while a training runs, and restores them afterwards. Knows no framework."""

from collections.abc import Callable
from typing import Any

__all__ = ["Method", "MethodWrappers"]

Method = Callable[..., Any]


class MethodWrappers:
    """Replaces bound methods on single objects, never on their classes, and restores them."""

    def __init__(self) -> None:
        self._wrapped: list[tuple[object, str, object, object]] = []

    def wrap(self, owner: object, name: str, around: Callable[[Method], Method]) -> bool:
        """Replace the method ``name`` by ``around(method)``.

        Returns:
            Whether ``owner`` has such a method.
        """
        original = getattr(owner, name, None)
        if not callable(original):
            return False
        wrapper = around(original)
        self._wrapped.append((owner, name, vars(owner).get(name), wrapper))
        setattr(owner, name, wrapper)
        return True

    def restore(self) -> None:
        """Restore every method, except one that somebody else has wrapped again since."""
        while self._wrapped:
            owner, name, before, wrapper = self._wrapped.pop()
            if vars(owner).get(name) is not wrapper:
                continue
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
