"""The steps that the collector is measured with give every detector its input, and no warning."""

from benchmarks.healthy_signals import LEVELS, healthy_levels, healthy_steps
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation, Severity
from monitor_server.detection.registry import DETECTORS


def test_every_signal_that_a_detector_reads_has_a_level_and_no_other_has_one():
    """A detector without its input costs next to nothing, and would make the measured projector look fast."""
    assert set(LEVELS) == {name for detector in DETECTORS.values() for name in detector.reads}


def test_a_healthy_run_of_sixty_signals_is_never_warned():
    """Open findings in every step would measure the writing of their evidence."""
    engine = Engine()
    for step, signals in enumerate(healthy_steps(60, steps=1000)):
        findings = engine.update(Observation(step=step, signals=signals)).findings
        assert [finding.kind for finding in findings if finding.severity is not Severity.INFO] == []


def test_few_signals_are_those_that_every_trainer_sends():
    """A run of three signals has three that a detector reads."""
    assert list(healthy_levels(3)) == ["reward/mean", "entropy/mean", "grad/norm"]
    assert len(healthy_levels(60)) == 60
