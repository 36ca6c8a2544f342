"""The examples in the docstrings of detection run, and every detector has one."""

import doctest
import importlib
import pkgutil

import pytest

from monitor_server import detection
from monitor_server.detection.registry import DETECTORS

MODULES = sorted(module.name for module in pkgutil.walk_packages(detection.__path__, "monitor_server.detection."))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_show(name):
    """Every example runs and prints the lines that stand under it."""
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_shows_an_alarm(name):
    """The example of a detector shows at which row its finding opens."""
    examples = doctest.DocTestParser().get_examples(DETECTORS[name].__doc__ or "")
    assert examples
    assert any(character.isdigit() for character in examples[-1].want)
