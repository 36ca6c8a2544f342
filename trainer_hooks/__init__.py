"""What runs inside a training process: signals, delivery, callbacks, losses and the reference trainer.

Importing this package loads the standard library's basics alone. Each public name is loaded when it is first asked for,
so that a script which never connects pays nothing; frameworks are reached through `trainer_hooks.callbacks`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer_hooks.connection import connect
    from trainer_hooks.errors import ConfigurationError, RolloutsError, VitalsError
    from trainer_hooks.monitor import Monitor, NullMonitor
    from trainer_hooks.rollouts import Rollouts
    from trainer_hooks.wire import AlertNotice

__all__ = [
    "AlertNotice",
    "ConfigurationError",
    "Monitor",
    "NullMonitor",
    "Rollouts",
    "RolloutsError",
    "VitalsError",
    "connect",
]

_HOMES = {
    "AlertNotice": "wire",
    "ConfigurationError": "errors",
    "Monitor": "monitor",
    "NullMonitor": "monitor",
    "Rollouts": "rollouts",
    "RolloutsError": "errors",
    "VitalsError": "errors",
    "connect": "connection",
}

if not TYPE_CHECKING:  # else every misspelt name would pass the type checker

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
