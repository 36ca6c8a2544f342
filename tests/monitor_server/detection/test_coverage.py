"""The paired channel at every n-th row: it replaces the levels if it is in most rows, and hides nothing otherwise."""

import random

import pytest

from monitor_server.detection.detector_parts.coverage import Coverage
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import DriftInput, Observation, Severity

ONSET, ROWS = 60, 140


def dying_run(every, *, seed=1):
    """Return a run that drifts slowly and then surges, with the paired change of entropy at every n-th row."""
    noise, run, drift = random.Random(seed), [], 0.0  # noqa: S311 - synthetic telemetry
    for step in range(ROWS):
        change = 0.004 * (step >= ONSET) + 0.02 * max(0, step - 110) / 10
        signals = {
            "entropy/mean": 0.4 + drift + noise.gauss(0.0, 0.01),
            "likelihood/correct": -0.4 - 1.2 * drift + noise.gauss(0.0, 0.015),
            "grad/norm": 0.5 * 1.2 ** max(0, step - 112) * (1.0 + noise.gauss(0.0, 0.1)),
            "reward/mean": 0.6 + noise.gauss(0.0, 0.02),
        }
        pair = change + noise.gauss(0.0, 0.0005)
        if every and step % every == 0:
            signals["entropy/paired_delta"] = pair
        run.append(Observation(step=step, signals=signals))
        drift += change
    return run


def first(run, severity):
    """Return the first step with a finding of the policy that is at least as severe."""
    engine = Engine()
    for observation in run:
        for finding in engine.update(observation).findings:
            is_of_policy = finding.kind in {"likelihood_drift", "death_spiral"}
            if is_of_policy and finding.severity.rank >= severity.rank:
                return observation.step
    return ROWS


@pytest.mark.parametrize("every", [3, 5, 10])
@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.CRITICAL])
def test_pairs_in_few_rows_make_no_alarm_later(every, severity):
    """Their sum knows a part of the drift only, so it may not contradict the levels."""
    for seed in range(3):
        without = first(dying_run(0, seed=seed), severity)
        assert ONSET < without < ROWS
        assert first(dying_run(every, seed=seed), severity) <= without


def test_pairs_in_every_row_make_the_warning_earlier():
    """They have less noise than the levels."""
    assert first(dying_run(1), Severity.WARNING) < first(dying_run(0), Severity.WARNING)


@pytest.mark.parametrize(("every", "expected"), [(1, "paired"), (2, "paired"), (3, "likelihood"), (5, "likelihood")])
def test_the_drift_input_is_the_paired_channel_where_it_is_in_half_of_the_rows(every, expected):
    """Once the coverage is known."""
    engine = Engine()
    found = [engine.update(row).drift_input for row in dying_run(every)]
    assert set(found[20:]) == {DriftInput(expected)}


def test_a_coverage_from_which_rows_are_taken_back_is_that_of_a_run_that_never_had_them():
    """Also if more rows are taken back than are known."""
    rewound, straight = Coverage(), Coverage()
    for row in range(30):
        rewound.update(row < 18 and row % 2 == 0)
        if row < 18:
            straight.update(row % 2 == 0)
    rewound.take_back(12, 18)
    assert (rewound.is_dense, straight.is_dense) == (True, True)
    rewound.take_back(40, 0)
    assert rewound.state() == Coverage().state()
