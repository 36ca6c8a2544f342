"""The part of rlvitals that runs inside a training process: signals, delivery, callbacks, losses, reference trainer.

Importing this package loads only basic modules of the standard library. Each public name is loaded when it is first
used, so a script that never connects pays nothing. Adapters for frameworks are in `trainer_hooks.callbacks`.
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

_MODULES = {
    "AlertNotice": "wire",
    "ConfigurationError": "errors",
    "Monitor": "monitor",
    "NullMonitor": "monitor",
    "Rollouts": "rollouts",
    "RolloutsError": "errors",
    "VitalsError": "errors",
    "connect": "connection",
}

if not TYPE_CHECKING:  # otherwise every misspelt name would pass the type checker

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
