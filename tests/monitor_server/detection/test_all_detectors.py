"""Properties that every detector and the engine must have."""

import copy
import functools
import json
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from monitor_server.detection.calibration import CLASSES, Calibration, Profile
from monitor_server.detection.detectors.paired_drift import PairedDrift
from monitor_server.detection.engine import EngineFactory
from monitor_server.detection.protocol import Assessment, Finding, Observation
from monitor_server.detection.registry import DETECTORS, READ_SIGNALS
from tests.monitor_server.detection.subjects import BUILDERS

CALIBRATED = EngineFactory(Calibration(id="own", profiles=dict.fromkeys(CLASSES, Profile(warn=1.5, page=2.0))))
SUBJECTS: dict[str, Any] = {**BUILDERS, "engine": EngineFactory(), "calibrated engine": CALIBRATED}
SIGNALS = sorted({name for detector in DETECTORS.values() for name in detector.reads})
# Signals with a known value in a run in which nothing happens.
AT_REST = {
    "entropy/paired_delta": 0.0,
    "displacement/self": 0.0,
    "displacement/cross": 0.0,
    "mismatch/ratio": 1.0,
    "mismatch/logprob_abs": 0.01,
    "instrument/logprob_abs": 1e-3,
    "instrument/entropy_abs": 1e-3,
    "instrument/mask_frac": 0.0,
}
LIKELIHOODS = [name for name in SIGNALS if name.startswith("likelihood/")]
every_subject = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS.keys())

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-2.0, 2.0),
    st.sampled_from([0.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324]),
)
observations = st.builds(
    Observation,
    step=st.integers(-3, 60),
    attempt=st.integers(1, 3),
    signals=st.dictionaries(st.sampled_from(SIGNALS), numbers, max_size=12),
    data_version=st.sampled_from([None, "a", "b"]),
)
streams = st.lists(observations, max_size=50)
DISTURBED_ROWS = 70
FAILING_ROWS = 60


@functools.cache
def failing_run(rows: int = 120, seed: int = 7) -> tuple[Observation, ...]:
    """Return a run in which every signal drifts, then accelerates, then ends in NaN; it is built once."""
    noise = random.Random(seed)  # noqa: S311 - synthetic telemetry
    run = []
    for step in range(rows):
        bad = max(0.0, (step - 40) / 20) ** 2
        signals = {name: 0.5 + 0.01 * noise.gauss(0, 1) + 0.05 * bad for name in SIGNALS}
        signals["entropy/paired_delta"] = 0.001 * noise.gauss(0, 1) + 0.004 * bad
        signals["likelihood/correct"] = -0.5 - 0.05 * bad + 0.01 * noise.gauss(0, 1)
        signals["reward/mean"] = 0.6 - 0.1 * bad + 0.02 * noise.gauss(0, 1)
        if step > rows - 10:
            signals["grad/norm"] = math.nan
        run.append(Observation(step=step, signals=signals))
    return tuple(run)


def wire(value: object) -> str:
    """Spell findings, assessments and states so that NaN equals NaN."""
    return repr(value)


@every_subject
def test_a_constant_run_is_silent(subject):
    """Constant signals, zeros included, lead to no finding; a likelihood is never the same in all digits."""
    for level in (0.0, 0.5):
        judge = subject()
        signals = dict.fromkeys(SIGNALS, level) | AT_REST
        for step in range(150):
            likelihoods = dict.fromkeys(LIKELIHOODS, -0.4 - 1e-9 * (step % 2))
            answer = judge.update(Observation(step=step, signals=signals | likelihoods))
            if isinstance(answer, Assessment):
                answer = answer.findings
            assert [f for f in answer if f.severity != "info"] == []


@every_subject
def test_the_input_is_untouched(subject):
    """A detector reads its observation, and the state from which it is restored, and changes nothing in them."""
    judge = subject()
    for row, observation in enumerate(failing_run(60)):
        before = copy.deepcopy(observation.signals)
        judge.update(observation)
        assert wire(observation.signals) == wire(before)
        if row == 5:
            state = judge.state()
            saved, judge = wire(state), subject.from_state(state)
    assert wire(state) == saved


@every_subject
def test_it_resumes_at_every_step_from_json(subject):
    """A state taken after any step and sent through JSON goes on exactly as the original does."""
    judge = subject()
    state = json.dumps(subject().state())
    for observation in failing_run():
        resumed = subject.from_state(json.loads(state))
        assert wire(resumed.update(observation)) == wire(judge.update(observation))
        state = json.dumps(resumed.state())
        assert state == json.dumps(judge.state())


@every_subject
def test_the_state_does_not_grow(subject):
    """After 240 rows the state is no longer than after 160, up to the digits of its numbers."""
    judge = subject()
    sizes = {}
    for row, observation in enumerate(failing_run(240), start=1):
        judge.update(observation)
        if row in (160, 240):
            sizes[row] = _count(judge.state())
    assert sizes[240] <= sizes[160] + 64


def _count(state: object) -> int:
    if isinstance(state, dict):
        return sum(map(_count, state.values()))
    return sum(map(_count, state)) if isinstance(state, list) else 1


@functools.cache
def failing_states(rows: int) -> dict[str, Any]:
    """Return the state of every subject after so many rows of the failing run."""
    return {name: _state_after(subject(), failing_run()[:rows]) for name, subject in SUBJECTS.items()}


def _state_after(judge: Any, run: tuple[Observation, ...]) -> Any:
    for observation in run:
        judge.update(observation)
    return judge.state()


@settings(max_examples=12, deadline=None)
@given(stream=streams)
def test_no_number_and_no_order_raises(stream):
    """NaN, infinity, absent signals, repeated and earlier steps, new attempts and new data raise no exception.

    They come at the beginning of a run, and in a failing run in place of some of its signals.
    """
    usual = failing_run()[FAILING_ROWS].signals
    failing = [replace(row, step=FAILING_ROWS + row.step, signals={**usual, **row.signals}) for row in stream]
    for name, subject in SUBJECTS.items():  # all read one stream, because drawing it takes longer
        note(name)
        for judge, run in ((subject(), stream), (subject.from_state(failing_states(FAILING_ROWS)[name]), failing)):
            for observation in run:
                answer = judge.update(observation)
                findings = answer.findings if isinstance(answer, Assessment) else answer
                assert all(isinstance(finding, Finding) and finding.summary.endswith(".") for finding in findings)
                json.dumps([finding.evidence for finding in findings])
                json.dumps(judge.state())


@settings(max_examples=6, deadline=None)
@given(late=st.lists(st.none() | st.integers(0, DISTURBED_ROWS - 1), min_size=DISTURBED_ROWS, max_size=DISTURBED_ROWS))
def test_duplicates_and_late_steps_change_nothing(late):
    """A run with steps repeated and sent late gives the findings of the run without them."""
    run = failing_run(DISTURBED_ROWS)
    for name, subject in SUBJECTS.items():
        note(name)
        judge, disturbed = subject(), subject()
        for position, (observation, repeated) in enumerate(zip(run, late, strict=True)):
            expected, given_back = judge.update(observation), disturbed.update(observation)
            assert wire(given_back) == wire(expected)
            if repeated is not None:
                disturbed.update(run[min(repeated, position)])
        assert wire(disturbed.state()) == wire(judge.state())


def test_a_state_never_brings_its_own_thresholds():
    """A run under way when the collector is upgraded goes on by the new rules: no state holds a threshold."""
    old = PairedDrift(threshold=7.0, display=7.0, least_sum=99.0)
    new = PairedDrift.from_state(json.loads(json.dumps(old.state())))
    found = []
    for step in range(60):
        found += new.update(Observation(step=step, signals={"entropy/paired_delta": 0.004 + 0.001 * (step % 3)}))
    assert found
    assert {finding.threshold for finding in found} <= {0.4, 0.72}


class _Asked(dict[str, float]):
    """Signals that note which of them they were asked for."""

    def __init__(self, values: dict[str, float], asked: set[str]) -> None:
        super().__init__(values)
        self._asked = asked

    def get(self, name: str, default: Any = None) -> Any:
        self._asked.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> float:
        self._asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._asked.add(str(name))
        return super().__contains__(name)


def test_what_detectors_read_is_known():
    """These signals have a place in any run; a detector that reads another one must state it in the registry."""
    asked: set[str] = set()
    for left_out in (set(), {"reward/zero_std_frac"}, READ_SIGNALS):
        engine, rng = EngineFactory()(), random.Random(1)  # noqa: S311 - a test
        for step in range(120):
            values = {name: rng.random() * (5.0 if step > 80 else 1.0) for name in sorted(READ_SIGNALS - left_out)}
            engine.update(Observation(step=step, signals=_Asked(values | {"own": 1.0}, asked)))
    assert asked >= {"reward/mean", "finite/bad_values", "reward/all_correct_frac"}
    assert asked <= READ_SIGNALS
