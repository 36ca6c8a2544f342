"""Excess loss of correct responses decides how early a drift is reported; unobserved, it has no effect."""

import math
import random

import pytest

from monitor_server.detection.detector_parts.excess_loss import Excess
from monitor_server.detection.detectors.paired_drift import PairedDrift
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation
from tests.monitor_server.detection.subjects import SpiralWithDrifts


def drifting(*, lost, rows=200, drift_at=100, seed=4):
    """Return a run whose entropy rises from a step on; correct responses lose ``lost`` times as much, if given."""
    rng, entropy, run = random.Random(seed), 0.4, []  # noqa: S311 - synthetic telemetry
    for step in range(rows):
        change = (0.0014 if step >= drift_at else 0.0) + 0.001 * rng.gauss(0, 1)
        entropy += change
        observed, noise = entropy + 0.01 * rng.gauss(0, 1), 0.01 * rng.gauss(0, 1)
        signals = {"entropy/paired_delta": change, "entropy/mean": observed}
        if lost is not None:
            signals["likelihood/correct"] = -0.4 - lost * (entropy - 0.4) + noise
        run.append(Observation(step=step, signals=signals))
    return run


def first_warning(detector, run):
    """Return the first step at which a detector warns."""
    return next(o.step for o in run if any(f.severity == "warning" for f in detector.update(o)))


@pytest.mark.parametrize("seed", range(5))
def test_displacement_is_reported_sooner_than_exploration_of_the_same_entropy(seed):
    """Entropy rises alike; where correct responses lose more than it gains, the warning comes first."""
    steps = [first_warning(PairedDrift(), drifting(lost=lost, seed=seed)) for lost in (2.0, None, 0.5)]
    assert steps == sorted(steps)
    assert steps[0] < steps[2]


def test_the_weight_is_bounded_and_one_without_likelihood():
    """Any loss or gain counts for at most three standard errors; a likelihood that is not observed counts for none."""
    for lost, weight in ((1e6, math.exp(0.75)), (-1e6, math.exp(-0.75)), (0.0, 1.0)):
        excess = Excess()
        for step in range(60):
            if step == 40:
                excess.mark()
            likelihood = -0.4 - (lost if step >= 40 else 0.0) + 0.01 * (-1) ** step
            excess.update(Observation(step=step, signals={"entropy/mean": 0.4, "likelihood/correct": likelihood}))
        assert excess.weight == pytest.approx(weight, rel=0.05)
        for step in range(60, 66):
            excess.update(Observation(step=step, signals={"entropy/mean": 0.4}))
        assert excess.weight == 1.0


def test_a_change_of_prompts_is_not_measured_as_loss():
    """Likelihood falls by a nat with new data of another version: the measurement of the current drift restarts."""
    judge = PairedDrift()
    for step, observation in enumerate(drifting(lost=1.0, rows=150)):
        fell = {"likelihood/correct": observation.signals["likelihood/correct"] - (1.0 if step >= 120 else 0.0)}
        version = "hard" if step >= 120 else "easy"
        judge.update(Observation(step=step, signals={**observation.signals, **fell}, data_version=version))
    assert judge.excess.weight == 1.0


def test_the_engine_updates_the_drifts_before_the_death_spiral_reads_them():
    """In an engine of 31 detectors the death spiral has the findings that it has beside its two drifts alone."""
    engine, alone = Engine(), SpiralWithDrifts()
    for step, observation in enumerate(drifting(lost=2.0)):
        surge = {"grad/norm": math.exp(0.1 * max(0, step - 150) + 0.1 * (-1) ** step)}
        row = Observation(step=step, signals={**observation.signals, **surge})
        found = [finding for finding in engine.update(row).findings if finding.kind == "death_spiral"]
        assert found == list(alone.update(row))
    assert found
