import copy
import importlib
import importlib.util
import sys

import pytest

from trainer_hooks.callbacks.shared.post_import import after_import, wrap


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return the name of a module that has not been imported, and remove it afterwards."""
    (tmp_path / "late_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "late_module"
    sys.modules.pop("late_module", None)


def test_it_waits_for_the_import_and_sees_the_finished_module(module):
    """The hook does not import the module; it runs once, after the module's own code."""
    seen = []
    after_import(module, lambda loaded: seen.append(loaded.value))
    assert module not in sys.modules
    finders = len(sys.meta_path)
    importlib.import_module(module)
    importlib.import_module(module)
    assert seen == [1]
    assert len(sys.meta_path) == finders - 1


def test_a_module_that_is_loaded_is_reported_at_once(module):
    """The hook runs at once where the module is already imported."""
    importlib.import_module(module)
    seen = []
    after_import(module, lambda loaded: seen.append(loaded.__name__))
    assert seen == [module]


def test_two_may_wait_for_the_same_module(module):
    """Two hooks for one module are both called."""
    seen = []
    after_import(module, lambda _: seen.append("first"))
    after_import(module, lambda _: seen.append("second"))
    importlib.import_module(module)
    assert sorted(seen) == ["first", "second"]


def test_a_module_that_is_only_looked_for_is_still_waited_for(module):
    """A search for the module's spec, whose result a trainer may copy, does not use up the hook."""
    seen = []
    after_import(module, lambda loaded: seen.append(loaded.value))
    after_import(module, lambda loaded: seen.append(loaded.__name__))
    assert copy.copy(importlib.util.find_spec(module).loader).name == module
    assert seen == []
    importlib.import_module(module)
    assert sorted(map(str, seen)) == ["1", module]


def test_an_import_that_fails_is_watched_when_it_is_tried_again(tmp_path, monkeypatch):
    """The hook runs once, after the second import, where the first import failed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "hasty_module.py").write_text("import sys\nvalue = sys.modules['what_comes_later']\n")
    seen = []
    finders = len(sys.meta_path)
    after_import("hasty_module", lambda loaded: seen.append(loaded.value))
    with pytest.raises(KeyError):
        importlib.import_module("hasty_module")
    monkeypatch.setitem(sys.modules, "what_comes_later", 7)
    importlib.import_module("hasty_module")
    assert seen == [7]
    assert len(sys.meta_path) == finders
    monkeypatch.delitem(sys.modules, "hasty_module")


@pytest.mark.parametrize("is_there", [True, False])
def test_an_error_of_ours_reaches_no_import(is_there, module, caplog):
    """A name that a newer version lacks is logged, whether the module is imported already or later."""
    if is_there:
        importlib.import_module(module)
    after_import(module, lambda loaded: loaded.gone)
    assert importlib.import_module(module).value == 1
    (message,) = caplog.messages
    assert module in message
    assert "'gone'" in message


def test_a_function_that_is_not_there_is_reported_and_left_out(caplog):
    """A missing function is logged and not created; other functions are wrapped and keep their names."""

    class Trainer:
        def train(self):
            """Train."""
            return "trained"

    wrap(Trainer, "fit", lambda original: original)
    assert caplog.messages == ["rlvitals: Trainer has no fit, so the signals that are read there are not observed"]
    assert not hasattr(Trainer, "fit")
    wrap(Trainer, "train", lambda original: lambda self: [original(self)])
    assert Trainer().train() == ["trained"]
    assert Trainer.train.__doc__ == "Train."
