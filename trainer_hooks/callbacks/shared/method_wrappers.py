"""Wraps methods of single objects while a training runs, and restores them afterwards. Depends on no framework."""

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
        """Restore every method. A wrapper that other code has wrapped again stays, and only calls the original."""
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
    """Calls ``watching`` until it is retired, and only ``original`` after that.

    A wrapper that other code has wrapped again is called as long as its owner lives, so after its retirement it keeps
    no reference to ``watching``. A copy of the owner gets its own method in place of this wrapper, because the wrapper
    would call the method of the first owner.
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
