"""Mistakes of the set-up are reported in a run's first rows, and only there."""

import pytest

from monitor_server.detection.base_classes.example_episodes import episodes
from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation
from monitor_server.detection.registry import DETECTORS

# Detector, signal, a value that is wrong from the start, a value that is right.
CASES = [
    ("all_truncated", "length/truncated_frac", 0.97, 0.4),
    ("equal_rewards", "reward/zero_std_frac", 1.0, 0.7),
    ("equal_rewards", "reward/std", 0.0, 0.2),
    ("impossible_likelihood", "likelihood/correct", 0.3, -0.3),
    ("zero_rate", "lr", 0.0, 1e-6),
    ("sampler_gap", "mismatch/logprob_abs", 0.4, 0.02),
    ("frozen_ratio", "kl/old", 0.0, 1e-4),
]
cases = pytest.mark.parametrize(("name", "signal", "wrong", "right"), CASES, ids=lambda value: str(value)[:20])


def test_every_preflight_detector_has_a_case():
    """A new detector needs a wrong and a right value."""
    assert {case[0] for case in CASES} == {n for n, d in DETECTORS.items() if issubclass(d, PreflightDetector)}


@cases
def test_what_is_wrong_from_the_start_is_reported_at_its_row_and_ends_when_it_is_right(name, signal, wrong, right):
    """It opens at the last of the rows that it needs, holds, and is gone with the first correct row."""
    detector, rows = DETECTORS[name](), DETECTORS[name].rows
    opened = episodes(detector, {signal: [wrong] * (rows + 3)})
    assert opened == [(rows - 1, detector.kind, str(detector.severity))]
    after = detector.update(Observation(step=rows + 3, signals={signal: right}))
    assert not after


@cases
def test_what_was_once_right_is_not_checked_again(name, signal, wrong, right):
    """One correct first row ends the check, however wrong the later rows are."""
    assert episodes(DETECTORS[name](), {signal: [right, *[wrong] * 30]}) == []


@cases
def test_rows_without_the_signal_do_not_count(name, signal, wrong, right):  # noqa: ARG001 - cases are shared
    """A signal that comes in every third row needs three times as many rows."""
    detector, found = DETECTORS[name](), []
    for step in range(3 * detector.rows):
        signals = {signal: wrong} if step % 3 == 0 else {}
        found += [step for _ in detector.update(Observation(step=step, signals=signals))]
    assert found == [3 * (detector.rows - 1)]


def test_an_engine_reports_a_broken_instrument_before_anything_else():
    """Positive log-probabilities in the first rows of a run that is otherwise healthy."""
    engine, kinds = Engine(), set()
    for step in range(5):
        signals = {"likelihood/correct": 0.4, "entropy/mean": 0.5, "reward/mean": 0.3}
        kinds |= {finding.kind for finding in engine.update(Observation(step=step, signals=signals)).findings}
    assert kinds == {"impossible_likelihood"}
