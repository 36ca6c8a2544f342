"""Wraps methods of single objects while a training runs, and restores them afterwards. Knows no framework."""

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["Method", "MethodWrappers"]

Method = Callable[..., Any]


class MethodWrappers:
    """Replaces bound methods on single objects, never on their classes, and restores them."""

    def __init__(self) -> None:
        self._wrapped: list[tuple[object, str, object, _Wrapper]] = []

    def wrap(self, owner: object, name: str, around: Callable[[Method], Method]) -> bool:
        """Replace the method ``name`` by ``around(method)``.

        Returns:
            Whether ``owner`` has such a method.
        """
        original = getattr(owner, name, None)
        if not callable(original):
            return False
        wrapper = _Wrapper(original, around(original))
        self._wrapped.append((owner, name, vars(owner).get(name), wrapper))
        setattr(owner, name, wrapper)
        return True

    def restore(self) -> None:
        """Restore every method; one that somebody else has wrapped again since only calls the original from now on."""
        while self._wrapped:
            owner, name, before, wrapper = self._wrapped.pop()
            wrapper.retire()
            if vars(owner).get(name) is not wrapper:
                continue
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


class _Wrapper:
    """Calls ``watching`` until it is retired, and ``original`` and nothing else after that.

    A wrapper that somebody else has wrapped again is called for ever. What it watches for must not be kept alive by it,
    nor grow. A copy of the owner has its own method: with this wrapper it would go on calling the owner's.
    """

    def __init__(self, original: Method, watching: Method) -> None:
        functools.update_wrapper(self, original)
        self._original = original
        self._target = watching

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._target(*args, **kwargs)

    def __reduce__(self) -> tuple[Callable[[Method], Method], tuple[Method]]:
        return _itself, (self._original,)

    def retire(self) -> None:
        self._target = self._original


def _itself(method: Method) -> Method:
    return method
