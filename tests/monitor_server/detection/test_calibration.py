"""Conformal calibration: the bound holds for any scores and on whole runs, and nothing is hidden by it."""

import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.detection.scoring.intervals import clopper_pearson
from monitor_server.commands.logs.calibrate import score_run
from monitor_server.commands.logs.calibration_report import calibrate
from monitor_server.detection.calibration import (
    CLASSES,
    BatchClass,
    Calibration,
    Profile,
    conformal_factor,
    runs_needed,
)
from monitor_server.detection.engine import Engine, EngineFactory
from monitor_server.detection.protocol import Observation, Severity

scores = st.lists(st.one_of(st.just(0.0), st.floats(1.0, 50.0), st.just(math.inf)), min_size=2, max_size=40)
CLOSED = Calibration(id="own-test", profiles=dict.fromkeys(CLASSES, Profile(warn=1e9, page=1e9)))


def restless_run(seed, rows=60):
    """Return a run of bursts: heavy-tailed noise that stays for four rows, which rules by ranks were not made for."""
    rng = random.Random(seed)  # noqa: S311 - synthetic telemetry
    noise = [rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.0, 1.0)) for _ in range(3 * rows)]
    return [
        Observation(
            step=step,
            signals={
                "reward/mean": max(0.0, 0.5 + 0.03 * noise[3 * (step // 4)]),
                "length/mean": 200.0 * math.exp(0.1 * noise[3 * (step // 4) + 1]),
                "entropy/mean": 0.4 * math.exp(0.1 * noise[3 * (step // 4) + 2]),
            },
        )
        for step in range(rows)
    ]


def alarmed(run, engine):
    """Return whether an engine warns in a run."""
    judge = engine()
    return any(f.severity is not Severity.INFO for o in run for f in judge.update(o).findings)


@given(found=scores, alpha=st.floats(0.01, 0.9))
def test_of_any_runs_each_left_out_in_turn_at_most_alpha_are_alarmed(found, alpha):
    """The theorem itself, for any numbers, ties and infinities: #{i: s_i > factor(the others)} ≤ α (n + 1)."""
    beyond = 0
    for place, score in enumerate(found):
        factor = conformal_factor(found[:place] + found[place + 1 :], alpha)
        beyond += factor is not None and score > factor
    assert beyond <= alpha * len(found) + 1e-6


@pytest.mark.parametrize(("alpha", "needed"), [(0.2, 4), (0.05, 19), (0.01, 99), (0.005, 199)])
def test_a_bound_needs_its_number_of_runs_and_no_fewer(alpha, needed):
    """The number is n ≥ 1/α − 1: with one run fewer there is no score of that rank."""
    assert runs_needed(alpha) == needed
    assert conformal_factor([1.0] * needed, alpha) == 1.0
    assert conformal_factor([1.0] * (needed - 1), alpha) is None


def test_new_runs_are_alarmed_as_seldom_as_promised():
    """Whole exchangeable runs through all detectors: far too many alarms before, at most α after calibration."""
    alpha = 0.1
    healthy = {str(seed): score_run(restless_run(seed)) for seed in range(60)}
    calibration = calibrate(healthy, warn=alpha, page=alpha).calibration
    assert calibration is not None
    fresh = [restless_run(seed) for seed in range(1000, 1080)]
    before = sum(alarmed(run, Engine) for run in fresh)
    after = sum(alarmed(run, EngineFactory(calibration)) for run in fresh)
    assert before / len(fresh) > 2 * alpha
    assert clopper_pearson(after, len(fresh))[0] <= alpha
    assert after > 0  # the bound is not met by silence


def test_the_calibration_is_on_every_finding_and_hides_none():
    """A finding that is held back stays as information, with its strength and the needed strength."""
    run = restless_run(3)
    plain, held = Engine(), Engine(CLOSED)
    for observation in run:
        expected, given_back = plain.update(observation).findings, held.update(observation).findings
        assert [f.kind for f in given_back] == [f.kind for f in expected]
        assert {f.evidence["calibration"] for f in given_back} <= {"own-test"}
        assert all(f.severity is Severity.INFO for f in given_back)
        for before, after in zip(expected, given_back, strict=True):
            assert before.severity is Severity.INFO or after.evidence["strength_needed"] == 1e9


def test_what_is_no_matter_of_degree_is_never_calibrated_away():
    """NaN in the gradient opens a critical alert under any calibration."""
    engine = Engine(CLOSED)
    assessment = engine.update(Observation(step=1, signals={"grad/norm": math.nan}))
    assert [(f.kind, f.severity) for f in assessment.findings] == [("non_finite", Severity.CRITICAL)]


def test_an_alarm_that_opened_stays_until_its_detector_lets_go():
    """Only the opening asks for strength; a held alarm whose statistic falls is the same alarm."""
    calibration = Calibration(id="own-test", profiles=dict.fromkeys(CLASSES, Profile(warn=3.0)))
    engine, severities = Engine(calibration), []
    for step, ess in enumerate([0.9] * 30 + [0.4, 0.4, 0.1, 0.4, 0.4]):  # strengths 1.25, 1.25, 5, 1.25, 1.25
        found = engine.update(Observation(step=step, signals={"ratio/ess_frac": ess, "reward/mean": 0.5})).findings
        severities += [str(f.severity) for f in found if f.kind == "off_policy_blowup"]
    assert severities == ["info", "warning", "warning", "warning"]


@pytest.mark.parametrize(("back_to", "expected"), [(30, "info"), (32, "info"), (33, "warning"), (35, "warning")])
def test_an_alarm_that_opened_at_replaced_rows_asks_for_strength_again(back_to, expected):
    """It opened at step 32 by strength 5, and is found again with 1.25 at the first row after the rewind."""
    kind = EngineFactory(Calibration(id="own-test", profiles=dict.fromkeys(CLASSES, Profile(warn=3.0))))
    engine = kind()

    def severities(first, rows, attempt):
        rows = [{"ratio/ess_frac": ess, "reward/mean": 0.5} for ess in rows]
        given = [Observation(step=step, attempt=attempt, signals=row) for step, row in enumerate(rows, first)]
        found = [finding for row in given for finding in engine.update(row).findings]
        return [str(finding.severity) for finding in found if finding.kind == "off_policy_blowup"]

    assert severities(0, [0.9] * 30 + [0.4, 0.4, 0.1, 0.4, 0.4], 1)[1:] == ["warning"] * 3
    engine = kind.from_state(json.loads(json.dumps(engine.state())))
    assert set(severities(back_to, [0.4] * 6, 2)) == {expected}


def test_an_alarm_in_the_state_of_an_older_version_stays_open():
    """That version saved the kinds of the open alarms without the steps at which they opened."""
    kind = EngineFactory(Calibration(id="own-test", profiles=dict.fromkeys(CLASSES, Profile(warn=3.0))))
    engine = kind()
    rows = [Observation(step=s, signals={"ratio/ess_frac": 0.1 if s == 32 else 0.4}) for s in range(30, 36)]
    for row in rows[:4]:
        engine.update(row)
    state = engine.state()
    assert state["gate"]["opened"] == {"warning": {"off_policy_blowup": 32}, "critical": {}}
    state["gate"]["opened"] = {"warning": ["off_policy_blowup"], "critical": []}
    engine = kind.from_state(state)
    for row in rows[4:]:
        (finding,) = (each for each in engine.update(row).findings if each.kind == "off_policy_blowup")
        assert finding.severity is Severity.WARNING


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), at=st.integers(1, 59))
def test_a_calibrated_engine_resumes_bit_for_bit(seed, at):
    """The state through JSON after any row, class and opened alarms included, goes on as the original does."""
    kind = EngineFactory(Calibration(id="own-test", profiles=dict.fromkeys(CLASSES, Profile(warn=1.3, page=2.0))))
    judge, resumed = kind(), kind()
    for observation in restless_run(seed):
        if observation.step == at:
            resumed = kind.from_state(json.loads(json.dumps(judge.state())))
        elif observation.step < at:
            judge.update(observation)
            continue
        assert repr(resumed.update(observation)) == repr(judge.update(observation))


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("back_to", [0, 1, 12, 24, 36])
def test_the_batch_class_rests_on_no_replaced_row(every, back_to):
    """The noisy rewards are all in replaced rows, also where few rows have a reward."""
    judge = BatchClass()

    def feed(steps, noise):
        for step in steps:
            rewards = {"reward/mean": 0.5 + noise(step) * (step % 4 < 2)} if step % every == 0 else {}
            name = judge.update(Observation(step=step, signals=rewards))
        return name

    feed(range(100), lambda step: 0.2 if step >= back_to else 0.0)
    judge.take_back(100 - back_to, back_to)
    assert set(judge.rewards) <= {0.5}
    assert feed(range(back_to, 160), lambda _: 0.0) == "large batch"


def test_the_batch_class_of_an_older_version_is_kept_until_its_rows_are_replaced():
    """Its state does not hold the number of rows: each had a reward."""
    state = {"rewards": [0.1, 0.9] * 10, "name": "small batch"}
    judge = BatchClass.from_state(state)
    judge.take_back(50, 20)
    assert judge.name == "small batch"
    judge.take_back(5, 15)
    assert (judge.name, list(judge.rewards)) == (None, state["rewards"][:15])


def test_each_batch_class_has_its_own_factor():
    """Runs with noisy rewards are calibrated by runs with noisy rewards: Mondrian classes do not mix."""

    def run(noise, seed):
        rng = random.Random(seed)  # noqa: S311 - synthetic telemetry
        return [Observation(step=s, signals={"reward/mean": 0.5 + noise * rng.gauss(0, 1)}) for s in range(40)]

    found = {f"{noise} {seed}": score_run(run(noise, seed)) for noise in (0.01, 0.1) for seed in range(5)}
    assert {name: score.batch_class for name, score in found.items()} == {
        name: "large batch" if name.startswith("0.01") else "small batch" for name in found
    }
    report = calibrate(found, warn=0.1, page=0.01)
    assert report.calibration is not None
    assert report.calibration.profiles == {}
    assert (
        sum("needs n >= 1/0.1 - 1 = 9 runs, got 5: add 4, or ask for 0.167 at least" in line for line in report.lines)
        == 2
    )
