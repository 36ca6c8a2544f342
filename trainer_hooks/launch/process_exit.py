"""Calls a function when the process ends, also in a process of multiprocessing."""

import atexit
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["ProcessExit", "has_succeeded"]


class ProcessExit:
    """Calls a function once or twice when the process ends.

    Args:
        work: Takes the exception that ends the process. That is None for ``SystemExit`` outside of multiprocessing, of
            which Python tells nothing.
    """

    def __init__(self, work: Callable[[BaseException | None], object]) -> None:
        self._work = work
        self._earlier_error = _identify(getattr(sys, "last_value", None))
        self._handled_error = _identify(None)
        self._finalizer: Any = None

    def register(self) -> None:
        """Call the function from now on."""
        atexit.register(self._end_script)
        # A process that multiprocessing has forked ends without the exit handlers of the interpreter.
        workers = sys.modules.get("multiprocessing.util")
        if workers is not None and workers.process.parent_process() is not None:
            # A fork within an `except` block handles the exception of its parent until it ends.
            self._handled_error = _identify(sys.exc_info()[1])
            self._finalizer = workers.Finalize(None, self._end_worker, exitpriority=0)

    def cancel(self) -> None:
        """Do not call the function any more, and keep no reference to it."""
        atexit.unregister(self._end_script)
        if self._finalizer is not None:
            self._finalizer.cancel()

    def _end_script(self) -> None:
        # Set by the interpreter when an exception ends the script, and by a notebook when one ends a cell.
        error = getattr(sys, "last_value", None)
        self._work(None if _identify(error) == self._earlier_error else error)

    def _end_worker(self) -> None:
        # multiprocessing calls this while it handles the exception that ends its process.
        error = sys.exc_info()[1]
        self._work(None if _identify(error) == self._handled_error else error)


def has_succeeded(error: BaseException | None) -> bool:
    """Whether a program that ends by this exception has succeeded."""
    return error is None or (isinstance(error, SystemExit) and error.code in (None, 0))


def _identify(error: BaseException | None) -> tuple[object, ...]:
    """Return what tells an error from others; a later error may have the id of one that is gone.

    This holds no reference to the error, because its traceback keeps tensors of a notebook's cell.
    """
    return id(error), type(error), id(getattr(error, "__traceback__", None))
