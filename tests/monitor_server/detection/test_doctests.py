"""The examples in the docstrings of detection run, and every detector has one."""

import doctest
import importlib
import json
import pkgutil

import pytest

from monitor_server import detection
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Assessment
from monitor_server.detection.registry import DETECTORS

MODULES = sorted(module.name for module in pkgutil.walk_packages(detection.__path__, "monitor_server.detection."))
EVIDENCE = {"signal", "baseline", "window", "statistic", "threshold", "calibration", "agreeing", "missing", "onset"}
EVIDENCE |= {"arithmetic"}


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_show(name):
    """Every example runs and prints the lines that stand under it."""
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_shows_an_alarm_that_carries_its_arithmetic(name, monkeypatch):
    """The example of a detector shows at which row its finding opens; each finding has the parts of its evidence."""
    detector, found = DETECTORS[name], []

    def noting(update):
        def noted(judge, observation):
            answer = update(judge, observation)
            found.extend(answer.findings if isinstance(answer, Assessment) else answer)
            return answer

        return noted

    for judge in (detector, Engine):  # the death spiral is shown in an engine, with the drifts that it reads
        monkeypatch.setattr(judge, "update", noting(judge.update))
    (example,) = doctest.DocTestFinder(recurse=False).find(detector, name)
    assert doctest.DocTestRunner().run(example).failed == 0
    assert any(character.isdigit() for character in example.examples[-1].want)
    assert found
    for finding in found:
        assert finding.evidence.keys() >= EVIDENCE
        assert finding.summary.endswith(".")
        json.dumps(finding.evidence)
