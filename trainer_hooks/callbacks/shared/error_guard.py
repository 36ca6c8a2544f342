"""Keeps errors of this package out of the training. Depends on no framework."""

from types import TracebackType

from trainer_hooks.delivery import DropCounter
from trainer_hooks.errors import RolloutsError
from trainer_hooks.monitor import Monitor

__all__ = ["Guard"]


class Guard:
    """Context manager that swallows any exception, counts it, and logs at most one a minute.

    Token arrays that contradict each other are the caller's error, and are counted as rejected rollouts; every other
    exception is counted as an internal error.
    """

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
        if isinstance(error, RolloutsError):
            self._drops.count("rollouts", f"rollouts were left out: {error}")
        else:
            self._drops.count_error(error)
