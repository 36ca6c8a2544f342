"""Keeps errors of this package out of the training. Depends on no framework."""

from types import TracebackType

from trainer_hooks.delivery import DropCounter
from trainer_hooks.monitor import Monitor

__all__ = ["Guard"]


class Guard:
    """Context manager that swallows any exception, counts it as an internal error, and logs at most one a minute."""

    def __init__(self) -> None:
        self._drops = DropCounter()

    def count_for(self, monitor: Monitor) -> None:
        """Count errors in the records of this monitor from now on (signal ``hooks/internal_errors``)."""
        self._drops = monitor.drops

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.count(error)
        return True

    def count(self, error: Exception) -> None:
        """Count an error that was caught elsewhere, as if it had been raised in the block."""
        self._drops.count_error(error)
