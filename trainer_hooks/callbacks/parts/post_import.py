"""Changes a module right after somebody else imports it, without importing it early. Standard library only.

An adapter is loaded in every process of an environment, by those too who never asked to be watched. So nothing here
raises: what a newer version of a trainer no longer has is said once, and is not observed.
"""

import contextlib
import functools
import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

__all__ = ["after_import", "wrap"]

logger = logging.getLogger("trainer_hooks")

Then = Callable[[ModuleType], object]
Function = Callable[..., Any]


def after_import(name: str, then: Then) -> None:
    """Call ``then(module)`` once the module is there: now, or when it is first imported.

    Args:
        name: Full name of the module.
        then: What it raises becomes a warning, and the module stays as far as it got.
    """
    if name in sys.modules:
        _tell(then, sys.modules[name])
    else:
        sys.meta_path.insert(0, _Waiting(name, then))


def wrap(owner: type | ModuleType, name: str, around: Callable[[Function], Function]) -> None:
    """Put ``around(function)`` in the place of a class's or module's function; where there is none, say so."""
    original = getattr(owner, name, None)
    if not callable(original):
        logger.warning("rlvitals: %s has no %s, and what is read there is not observed", owner.__name__, name)
        return
    setattr(owner, name, functools.wraps(original)(around(original)))


def _tell(then: Then, module: ModuleType) -> None:
    try:
        then(module)
    except Exception as error:  # noqa: BLE001 - nobody's import may fail because of us
        logger.warning("rlvitals: %s is not watched: %s: %s", module.__name__, type(error).__name__, error)


class _Waiting(importlib.abc.MetaPathFinder):
    """Stands in front of the finders until its module is there: one that is looked for need not be imported."""

    def __init__(self, name: str, then: Then) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        finders = [*sys.meta_path]
        # Those before this one have been asked.
        for finder in finders[finders.index(self) + 1 :] if self in finders else finders:
            spec = finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Telling(spec.loader, self._tell)
                return spec
        return None

    def _tell(self, module: ModuleType) -> None:
        with contextlib.suppress(ValueError):  # another thread was first
            sys.meta_path.remove(self)
        _tell(self._then, module)


class _Telling(importlib.abc.Loader):
    """Loads as the loader it wraps does, then tells."""

    def __init__(self, loader: importlib.abc.Loader, tell: Then) -> None:
        self._loader = loader
        self._tell = tell

    def __getattr__(self, name: str) -> object:
        if name == "_loader":  # a copy that is being made has none yet
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._tell(module)
