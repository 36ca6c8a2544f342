import importlib
import sys

import pytest

from trainer_hooks.callbacks.post_import import after_import


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that nobody has imported, which leaves no trace."""
    (tmp_path / "late_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "late_module"
    sys.modules.pop("late_module", None)


def test_it_waits_for_the_import_and_sees_the_finished_module(module):
    """Nothing is imported early; once it is, the code runs once, after the module's own."""
    seen = []
    after_import(module, lambda loaded: seen.append(loaded.value))
    assert module not in sys.modules
    finders = len(sys.meta_path)
    importlib.import_module(module)
    importlib.import_module(module)
    assert seen == [1]
    assert len(sys.meta_path) == finders - 1


def test_a_module_that_is_there_is_told_of_at_once(module):
    """Import first, ask later."""
    importlib.import_module(module)
    seen = []
    after_import(module, lambda loaded: seen.append(loaded.__name__))
    assert seen == [module]


def test_two_may_wait_for_the_same_module(module):
    """Each is told."""
    seen = []
    after_import(module, lambda _: seen.append("first"))
    after_import(module, lambda _: seen.append("second"))
    importlib.import_module(module)
    assert sorted(seen) == ["first", "second"]
