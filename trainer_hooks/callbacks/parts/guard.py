"""Keeps our errors out of training, and puts our code around a trainer's methods. Knows no framework."""

from collections.abc import Callable
from types import TracebackType
from typing import Any

from trainer_hooks.delivery import DropCounter
from trainer_hooks.errors import RolloutsError
from trainer_hooks.monitor import Monitor

__all__ = ["Guard", "Wrappings"]


class Guard:
    """``with guard:`` swallows any exception, counts it and logs one a minute.

    Arrays that contradict each other are the caller's error and not ours, and counted as such.
    """

    def __init__(self) -> None:
        self._drops = DropCounter()

    def tell(self, monitor: Monitor) -> None:
        """Have the monitor's records count the errors from now on (``hooks/internal_errors``)."""
        self._drops = monitor.drops

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        if isinstance(error, RolloutsError):
            self._drops.count("rollouts", f"rollouts were left out: {error}")
        else:
            self._drops.count_error(error)
        return True


class Wrappings:
    """Replaces bound methods on single objects, never on their classes, and puts them back."""

    def __init__(self) -> None:
        self._wrapped: list[tuple[object, str, object, object]] = []

    def wrap(self, owner: object, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
        """Put ``around(method)`` in the place of a method; say whether there was one."""
        original = getattr(owner, name, None)
        if not callable(original):
            return False
        wrapper = around(original)
        self._wrapped.append((owner, name, vars(owner).get(name), wrapper))
        setattr(owner, name, wrapper)
        return True

    def undo(self) -> None:
        """Put everything back, except where somebody has wrapped it again since."""
        while self._wrapped:
            owner, name, before, wrapper = self._wrapped.pop()
            if vars(owner).get(name) is not wrapper:
                continue
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
