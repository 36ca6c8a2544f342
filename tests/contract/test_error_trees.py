"""The tree of errors at the top of each package's module of errors is the tree of its classes."""

import inspect
import re

import pytest

import monitor_server.errors
import trainer_hooks.errors

INDENT = 4  # of each level of the tree
COLUMN = 14  # of a package, in which the modules that define the errors stand before the tree


def drawn_lines(module):
    """Yield each line of a docstring, with the name of the module whose errors it draws."""
    defining = module.__name__
    for line in module.__doc__.splitlines():
        if not hasattr(module, "__path__"):
            yield defining, line
        elif re.fullmatch(r"[a-z_]* +", line[:COLUMN]):
            defining = f"{module.__name__}.{line[:COLUMN].strip()}" if line[:COLUMN].strip() else defining
            yield defining, line[COLUMN:]


def drawn_errors(module):
    """Return the base that a drawn tree gives each error, None for its roots, and the module that defines it."""
    found, above = {}, {}
    for defining, line in drawn_lines(module):
        drawn = re.match(r"([│├└─ ]*)((?:[A-Z]\w+(?: \(\w+\))?(?:, )?)+)(?:  |$)", line)
        if drawn is None:
            continue
        level = len(drawn[1]) // INDENT
        for name in re.sub(r" \(\w+\)", "", drawn[2]).split(", "):
            found[name] = above.get(level - 1), defining
            above[level] = name
    return found


def declared_errors(module):
    """Return the base among its own errors that each public error of a module or package has, and its module."""
    errors = {
        name: held
        for name, held in vars(module).items()
        if inspect.isclass(held) and issubclass(held, Exception) and held.__module__.startswith(module.__name__)
    }
    return {
        name: (next((base.__name__ for base in held.__mro__[1:] if base in errors.values()), None), held.__module__)
        for name, held in errors.items()
        if not name.startswith("_")
    }


@pytest.mark.parametrize("module", [monitor_server.errors, trainer_hooks.errors], ids=lambda module: module.__name__)
def test_the_drawn_tree_of_errors_is_that_of_the_classes(module):
    """Every error stands there once, below its base and beside the module that defines it, and is exported."""
    declared = declared_errors(module)
    assert drawn_errors(module) == declared
    assert set(module.__all__) == set(declared)
