"""Finds the trainer that is training, and ends the runs of trainings that an exception has left.

A Trainer tells its callbacks of a training that reaches its end, and not of one that raises. If the script ends with
it, the exit of the interpreter ends the run. A notebook lives on, and so does a script that catches the exception:
there the call stack is searched for the trainer when a cell has ended or the next training begins. No thread waits for
this, and nothing happens while a training runs.
"""

import sys
import threading
import weakref
from types import FrameType
from typing import Any, Protocol

from transformers import Trainer

from trainer_hooks.monitor import Monitor
from trainer_hooks.wire import RunEnd

__all__ = ["end_left_trainings", "find_calling_trainer", "forget_training", "note_training"]


class Watching(Protocol):
    """The callback of a training."""

    def end_training(self, end: RunEnd) -> None:
        """Restore the trainer's methods, and report how the run ended."""


# The callback by its monitor, and the thread that trains. Not the objects themselves: a callback holds the trainer and
# the model, whose memory the next training may need, and so may a thread.
_trainings: "dict[Monitor, tuple[weakref.ref[Watching], weakref.ref[threading.Thread]]]" = {}


def find_calling_trainer(callback: object) -> Any:
    """Find the trainer whose ``train()`` is on the call stack: a callback is not given the trainer that calls it.

    Returns:
        The trainer, or None where none on the stack has this callback.
    """
    # Not inspect.stack(), which reads source files for each frame.
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        found = frame.f_locals.get("self")
        if isinstance(found, Trainer):
            # A subclass may train another trainer in its __init__, before it has callbacks. Other callbacks may be
            # compared in a way of their own.
            handler = getattr(found, "callback_handler", None)
            if any(each is callback for each in getattr(handler, "callbacks", ())):
                return found
        frame = frame.f_back
    return None


def note_training(callback: Watching, monitor: Monitor) -> None:
    """Note that a training begins in this thread, and in a notebook look for it after each cell."""
    _trainings[monitor] = weakref.ref(callback), weakref.ref(threading.current_thread())
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.events.register("post_run_cell", _after_cell)  # once, however often it is called


def forget_training(monitor: Monitor) -> None:
    """Forget a training that has ended."""
    _trainings.pop(monitor, None)


def end_left_trainings() -> None:
    """Report the runs as stopped whose trainings are not on the call stack, nor began in another thread that lives."""
    for monitor, (callback_reference, thread_reference) in list(_trainings.items()):
        callback, thread = callback_reference(), thread_reference()
        is_elsewhere = thread is not None and thread.is_alive() and thread is not threading.current_thread()
        if is_elsewhere or (callback is not None and find_calling_trainer(callback) is not None):
            continue
        forget_training(monitor)
        if callback is not None:
            callback.end_training("stopped")
        monitor.close("stopped")


def _after_cell(*_: object) -> None:
    end_left_trainings()
