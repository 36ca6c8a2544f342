"""Mistakes of the set-up are reported in a run's first rows, and only there."""

import math

import numpy as np
import pytest

from monitor_server.detection.base_classes.example_episodes import episodes
from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.detectors.constant_likelihood import ConstantLikelihood
from monitor_server.detection.detectors.unmasked_feedback import UnmaskedFeedback
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation
from monitor_server.detection.registry import DETECTORS
from trainer_hooks import Rollouts
from trainer_hooks.signals import summarise
from trainer_hooks.wire import Record, merge

# Detector, signal, a value that is wrong from the start, a value that is right.
CASES = [
    ("all_truncated", "length/truncated_frac", 0.97, 0.4),
    ("equal_rewards", "reward/zero_std_frac", 1.0, 0.7),
    ("equal_rewards", "reward/std", 0.0, 0.2),
    ("impossible_likelihood", "likelihood/correct", 0.3, -0.3),
    ("impossible_likelihood", "likelihood/incorrect", 0.0, -0.3),
    ("constant_likelihood", "likelihood/correct", -0.7, -0.3),
    ("unmasked_feedback", "tools/unbroken_frac", 1.0, 0.2),
    ("zero_rate", "lr", 0.0, 1e-6),
    ("sampler_gap", "mismatch/logprob_abs", 0.4, 0.02),
    ("frozen_ratio", "kl/old", 0.0, 1e-4),
]
# Signals that a detector needs beside the one that is wrong.
BESIDE = {"unmasked_feedback": {"tools/none_frac": 0.1}}
cases = pytest.mark.parametrize(("name", "signal", "wrong", "right"), CASES, ids=lambda value: str(value)[:20])


def series(name, signal, values):
    """Return the values of a signal, with the constant signals that a detector needs beside it."""
    return {signal: values} | {other: [value] * len(values) for other, value in BESIDE.get(name, {}).items()}


def test_every_preflight_detector_has_a_case():
    """A new detector needs a wrong and a right value."""
    assert {case[0] for case in CASES} == {n for n, d in DETECTORS.items() if issubclass(d, PreflightDetector)}


@cases
def test_what_is_wrong_from_the_start_is_reported_at_its_row_and_ends_when_it_is_right(name, signal, wrong, right):
    """It opens at the last of the rows that it needs, holds, and is gone with the first correct row."""
    detector, rows = DETECTORS[name](), DETECTORS[name].rows
    opened = episodes(detector, series(name, signal, [wrong] * (rows + 3)))
    assert opened == [(rows - 1, detector.kind, str(detector.severity))]
    after = detector.update(Observation(step=rows + 3, signals={signal: right} | BESIDE.get(name, {})))
    assert not after


@cases
def test_what_was_once_right_is_not_checked_again(name, signal, wrong, right):
    """One correct first row ends the check, however wrong the later rows are."""
    assert episodes(DETECTORS[name](), series(name, signal, [right, *[wrong] * 30])) == []


@cases
def test_rows_without_the_signal_do_not_count(name, signal, wrong, right):  # noqa: ARG001 - cases are shared
    """A signal that comes in every third row needs three times as many rows."""
    detector, found = DETECTORS[name](), []
    for step in range(3 * detector.rows):
        signals = ({signal: wrong} if step % 3 == 0 else {}) | BESIDE.get(name, {})
        found += [step for _ in detector.update(Observation(step=step, signals=signals))]
    assert found == [3 * (detector.rows - 1)]


def test_an_engine_reports_a_broken_instrument_before_anything_else():
    """Positive log-probabilities in the first rows of a run that is otherwise healthy."""
    engine, kinds = Engine(), set()
    for step in range(5):
        signals = {"likelihood/correct": 0.4, "entropy/mean": 0.5, "reward/mean": 0.3}
        kinds |= {finding.kind for finding in engine.update(Observation(step=step, signals=signals)).findings}
    assert kinds == {"impossible_likelihood"}


def test_a_constant_likelihood_is_one_signal_that_repeats_its_first_value():
    """Rows without correct responses do not count; another signal with the same value proves nothing."""
    rows = [-0.5, math.nan, -0.5, math.nan, *[-0.5] * 8]
    found = episodes(ConstantLikelihood(), {"likelihood/correct": rows, "likelihood/incorrect": [-0.9] * 12})
    assert found == [(11, "impossible_likelihood", "warning")]
    moved = [*[-0.5] * 9, math.nextafter(-0.5, 0), -0.5, -0.5]
    assert episodes(ConstantLikelihood(), {"likelihood/correct": moved, "likelihood/incorrect": [-0.9] * 12}) == []


@pytest.mark.parametrize(("first", "back_to"), [(0, 0), (5, 3)])
def test_a_constant_likelihood_is_taken_anew_after_a_rewind_to_its_first_row(first, back_to):
    """The value of replaced rows is not the level of the rows that replace them; the rows before had no likelihood."""
    detector = ConstantLikelihood()
    found = []
    for attempt, value, begin in ((1, -0.5, 0), (2, -0.8, back_to)):
        for step in range(begin, first + 10):
            signals = {"likelihood/correct": value} if step >= first else {}
            found += [
                (attempt, step) for _ in detector.update(Observation(step=step, attempt=attempt, signals=signals))
            ]
    assert found == [(1, first + 9), (2, first + 9)]


def test_rows_in_which_few_responses_call_a_tool_do_not_show_whether_feedback_is_masked():
    """With calls in a tenth of the responses the check waits, and it goes on when a quarter call."""
    without_call = [0.9, 0.9, 0.9, 0.75, 0.5, 0.9, 0.1]
    rows = {"tools/unbroken_frac": [1.0] * 7, "tools/none_frac": without_call}
    assert episodes(UnmaskedFeedback(), rows) == [(6, "unmasked_feedback", "warning")]
    assert episodes(UnmaskedFeedback(), {"tools/unbroken_frac": [1.0] * 7}) == []


def step_with_a_tool(rng, *, covers_feedback):
    """Return the signals of a step whose eight responses are five actions, four tokens of feedback, three actions."""
    is_action = np.array([True] * 5 + [False] * 4 + [True] * 3)
    mask = np.tile(is_action | covers_feedback, (8, 1))
    mask[:2, 5:] = False  # two responses end at their call
    calls = np.ones(8, int)
    logprobs = -rng.exponential(1.0, mask.shape)
    rollouts = Rollouts(logprobs, mask, rng.integers(0, 2, 8), tool_calls=calls, tool_calls_valid=calls)
    return merge([Record(step=1, summaries=summarise(rollouts))])


@pytest.mark.parametrize("covers_feedback", [False, True])
def test_a_mask_that_covers_feedback_is_found_from_the_arrays_of_the_first_three_steps(covers_feedback):
    """The signals come from the hooks' own code, with a right mask and with one that counts feedback as actions."""
    rng, engine, opened = np.random.default_rng(0), Engine(), {}
    for step in range(6):
        signals = step_with_a_tool(rng, covers_feedback=covers_feedback)
        for finding in engine.update(Observation(step=step, signals=signals)).findings:
            opened.setdefault(finding.kind, step)
    assert opened == ({"unmasked_feedback": 2} if covers_feedback else {})
