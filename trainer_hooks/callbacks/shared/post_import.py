"""Changes a module right after it is imported, without importing it early. Standard library only.

An adapter is loaded in every process of an environment, also in processes that are not to be watched. Therefore nothing
here raises. If a newer version of a trainer lacks a function, one warning is logged, and its signals are not observed.
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

Hook = Callable[[ModuleType], object]
Function = Callable[..., Any]


def after_import(name: str, hook: Hook) -> None:
    """Call ``hook(module)`` once the module is imported: now, or after its first import.

    Args:
        name: Full name of the module.
        hook: Takes the module. If it raises, a warning is logged, and the changes that it has made until then stay.
    """
    if name in sys.modules:
        _run_hook(hook, sys.modules[name])
    else:
        sys.meta_path.insert(0, _PostImportFinder(name, hook))


def wrap(owner: type | ModuleType, name: str, around: Callable[[Function], Function]) -> None:
    """Replace a function of a class or a module by ``around(function)``; where there is none, log a warning."""
    original = getattr(owner, name, None)
    if not callable(original):
        logger.warning(
            "rlvitals: %s has no %s, so the signals that are read there are not observed", owner.__name__, name
        )
        return
    setattr(owner, name, functools.wraps(original)(around(original)))


def _run_hook(hook: Hook, module: ModuleType) -> None:
    try:
        hook(module)
    except Exception as error:  # noqa: BLE001 - no import may fail because of this package
        logger.warning("rlvitals: %s is not watched: %s: %s", module.__name__, type(error).__name__, error)


class _PostImportFinder(importlib.abc.MetaPathFinder):
    """Comes before the other finders until its module is imported; finding a module does not always import it."""

    def __init__(self, name: str, hook: Hook) -> None:
        self._name = name
        self._hook = hook

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        finders = [*sys.meta_path]
        # The finders before this one were asked already.
        for finder in finders[finders.index(self) + 1 :] if self in finders else finders:
            spec = finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None and spec.loader is not None:
                spec.loader = _PostImportLoader(spec.loader, self._run_hook)
                return spec
        return None

    def _run_hook(self, module: ModuleType) -> None:
        with contextlib.suppress(ValueError):  # another thread removed it first
            sys.meta_path.remove(self)
        _run_hook(self._hook, module)


class _PostImportLoader(importlib.abc.Loader):
    """Loads by the loader that it wraps, then runs the hook."""

    def __init__(self, loader: importlib.abc.Loader, run_hook: Hook) -> None:
        self._loader = loader
        self._run_hook = run_hook

    def __getattr__(self, name: str) -> object:
        if name == "_loader":  # an object that is being copied has none yet
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._run_hook(module)
