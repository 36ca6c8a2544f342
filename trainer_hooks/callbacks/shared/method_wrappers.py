"""Wraps methods of single objects while a training runs, and restores them afterwards. Knows no framework."""

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["Method", "MethodWrappers"]

Method = Callable[..., Any]


class MethodWrappers:
    """Replaces bound methods on single objects, never on their classes, and restores them."""

    def __init__(self) -> None:
        self._wrapped: list[tuple[object, str, object, Method, Callable[[], None]]] = []

    def wrap(self, owner: object, name: str, around: Callable[[Method], Method]) -> bool:
        """Replace the method ``name`` by ``around(method)``.

        Returns:
            Whether ``owner`` has such a method.
        """
        original = getattr(owner, name, None)
        if not callable(original):
            return False
        wrapper, retire = _retirable(original, around(original))
        self._wrapped.append((owner, name, vars(owner).get(name), wrapper, retire))
        setattr(owner, name, wrapper)
        return True

    def restore(self) -> None:
        """Restore every method; one that somebody else has wrapped again since only calls the original from now on."""
        while self._wrapped:
            owner, name, before, wrapper, retire = self._wrapped.pop()
            retire()
            if vars(owner).get(name) is not wrapper:
                continue
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def _retirable(original: Method, watching: Method) -> tuple[Method, Callable[[], None]]:
    """Return a method that calls ``watching``, and a function after which it calls ``original`` and nothing else.

    A wrapper that somebody else has wrapped again is called for ever. What it watches for must not be kept alive by it,
    nor grow.
    """
    target = watching

    def retire() -> None:
        nonlocal target
        target = original

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    return wrapper, retire
