"""The hooks of slime as a new process imports them: not connected yet, and without a warning logged."""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from types import ModuleType

import trainer_hooks
from trainer_hooks.callbacks import slime

__all__ = ["fresh_slime"]


@contextlib.contextmanager
def fresh_slime() -> Iterator[tuple[ModuleType, Callable[[], None]]]:
    """Yield the module, and a function that closes its monitors, as the end of the process does."""
    connect = trainer_hooks.connect
    opened: list[trainer_hooks.Monitor] = []

    def connect_and_note(*given: object, **named: object) -> trainer_hooks.Monitor:
        opened.append(connect(*given, **named))
        return opened[-1]

    def close() -> None:
        while opened:
            opened.pop().close()

    trainer_hooks.connect = connect_and_note
    try:
        yield importlib.reload(slime), close
    finally:
        trainer_hooks.connect = connect
        close()
