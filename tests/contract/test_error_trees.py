"""The tree of errors at the top of each package's module of errors is the tree of its classes."""

import inspect
import re

import pytest

import monitor_server.errors
import trainer_hooks.errors

INDENT = 4  # of each level of the tree


def drawn_bases(text):
    """Return the base that a drawn tree gives each error, None for its roots."""
    found, above = {}, {}
    for line in text.splitlines():
        drawn = re.match(r"([│├└─ ]*)((?:[A-Z]\w+(?: \(\w+\))?(?:, )?)+)(?:  |$)", line)
        if drawn is None:
            continue
        level = len(drawn[1]) // INDENT
        for name in re.sub(r" \(\w+\)", "", drawn[2]).split(", "):
            found[name] = above.get(level - 1)
            above[level] = name
    return found


def declared_bases(module):
    """Return the base of the same module that each public error has, None where it has none."""
    classes = {name: held for name, held in vars(module).items() if inspect.isclass(held) and not name.startswith("_")}
    errors = {
        name: held
        for name, held in classes.items()
        if issubclass(held, Exception) and held.__module__ == module.__name__
    }
    return {
        name: next((base.__name__ for base in held.__mro__[1:] if base in errors.values()), None)
        for name, held in errors.items()
    }


@pytest.mark.parametrize("module", [monitor_server.errors, trainer_hooks.errors], ids=lambda module: module.__name__)
def test_the_drawn_tree_of_errors_is_that_of_the_classes(module):
    """Every error stands there once, below its base, and is exported."""
    declared = declared_bases(module)
    assert drawn_bases(module.__doc__) == declared
    assert set(module.__all__) == set(declared)
