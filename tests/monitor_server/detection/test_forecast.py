"""The forecast: probabilities that only evidence raises, on healthy, failing and restarted runs."""

import json
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.detection.detectors.death_spiral import MUTED_ROWS
from monitor_server.detection.engine import Engine
from monitor_server.detection.forecast.evidence import EVIDENCE, Evidence
from monitor_server.detection.forecast.hazard import MODELS, HazardModel, model_for
from monitor_server.detection.protocol import DriftInput, Finding, Observation, Phase, Severity
from monitor_server.detection.registry import build_detectors

EVIDENCES = st.dictionaries(st.sampled_from(sorted(EVIDENCE)), st.floats(0.0, 50.0))


def failing_run(*, rows=160, drift_at=60, surge_at=110):
    """Return a run that drifts from one step on and surges from another, with a little noise."""
    draw, run = random.Random(5), []  # noqa: S311 - synthetic telemetry
    for step in range(rows):
        drift = 0.003 * max(0, step - drift_at) + 0.02 * max(0, step - surge_at)
        signals = {
            "entropy/mean": 0.4 + drift + 0.01 * draw.gauss(0, 1),
            "likelihood/correct": -0.4 - drift + 0.02 * draw.gauss(0, 1),
            "grad/norm": 1.0 + 0.1 * draw.random() + 0.2 * max(0, step - surge_at),
            "reward/mean": 0.5 + 0.02 * draw.gauss(0, 1),
        }
        run.append(Observation(step=step, signals=signals))
    return run


def assess(run):
    """Return the assessment of each row."""
    engine = Engine()
    return [engine.update(observation) for observation in run]


@pytest.mark.parametrize("name", MODELS)
@given(evidence=EVIDENCES)
def test_a_forecast_grows_with_the_horizon_and_never_falls_below_the_base_rate(name, evidence):
    """Every probability lies in [0, 1], grows with the horizon, and is at least its base rate."""
    forecast = MODELS[name].forecast(evidence)
    assert list(forecast.probabilities) == sorted(forecast.probabilities)
    assert all(0.0 <= p <= 1.0 for p in forecast.probabilities)
    assert all(p >= base for p, base in zip(forecast.probabilities, forecast.base_rates, strict=True))
    assert set(forecast.drivers) <= set(evidence)


@pytest.mark.parametrize("name", MODELS)
@given(evidence=EVIDENCES, more=st.floats(0.0, 10.0), which=st.sampled_from(sorted(EVIDENCE)))
def test_more_evidence_never_lowers_a_forecast(name, evidence, more, which):
    """Raising one number raises or keeps every probability."""
    raised = MODELS[name].forecast(evidence | {which: evidence.get(which, 0.0) + more}).probabilities
    before = MODELS[name].forecast(evidence).probabilities
    assert all(after >= p for after, p in zip(raised, before, strict=True))


def test_without_evidence_the_forecast_is_the_base_rate():
    """A run that sends its reward alone, and holds it, gets the base rate of its model and no drivers."""
    forecast = assess([Observation(step=step, signals={"reward/mean": 0.5}) for step in range(30)])[-1].forecast
    assert forecast.model == "metrics"
    assert forecast.probabilities == forecast.base_rates
    assert forecast.drivers == {}


def test_the_model_follows_what_a_run_observes():
    """A signal of the likelihood side and the ratios choose the models that were fitted with them."""
    for drift_input in (DriftInput.PAIRED, DriftInput.LIKELIHOOD):
        assert model_for(drift_input, observes_ratios=False).name == "likelihood"
        assert model_for(drift_input, observes_ratios=True).name == "ratios"
    for drift_input in (DriftInput.ENTROPY, DriftInput.METRICS):
        assert model_for(drift_input, observes_ratios=False).name == "metrics"
        assert model_for(drift_input, observes_ratios=True).name == "metrics"


def test_a_run_that_drifts_and_surges_gets_a_higher_forecast():
    """The forecast rises with the drift, rises again with the surge, and names the drift."""
    forecasts = [assessment.forecast for assessment in assess(failing_run())]
    healthy, drifting, surging = (forecasts[step].probabilities[-1] for step in (50, 105, 125))
    assert healthy < drifting < surging
    assert "drift" in forecasts[105].drivers
    assert all(ratio > 1.0 for ratio in forecasts[105].drivers.values())


def with_ratios(ratio_of, *, rows=60, signal="ratio/p999"):
    """Return a run that holds its likelihoods, with the ratio that a step has; None leaves it out."""
    run = []
    for step in range(rows):
        likelihood = -0.4 - 1e-9 * (step % 2)  # a likelihood that is the same in all digits is itself a mistake
        signals = {"entropy/mean": 0.4, "likelihood/correct": likelihood, "reward/mean": 0.5}
        ratio = ratio_of(step)
        run.append(Observation(step=step, signals=signals | ({} if ratio is None else {signal: ratio})))
    return run


def test_ratios_count_as_observed_from_the_eighth_to_the_fifth_row_without_them():
    """A run without enough ratios is not treated as one whose ratios are calm."""
    models = [found.forecast.model for found in assess(with_ratios(lambda step: 1.2 if step < 40 else None))]
    assert models[4:7] == ["likelihood"] * 3
    assert models[7:45] == ["ratios"] * 38
    assert models[45:] == ["likelihood"] * 15


def test_the_largest_ratio_does_not_stand_in_for_the_percentile():
    """A run that sends the largest ratio alone has the model of runs without ratios."""
    models = {found.forecast.model for found in assess(with_ratios(lambda step: 1.2 + step, signal="ratio/max"))}
    assert models == {"likelihood"}


def test_a_row_in_which_only_the_largest_ratio_is_a_number_changes_nothing_in_later_rows():
    """Neither the model nor, but for the weight of one row in an average, the forecast."""
    run = with_ratios(lambda step: 1.2 * 1.01**step)
    largest = [Observation(step=row.step, signals=row.signals | {"ratio/max": 50.0}) for row in run]
    without = {name: value for name, value in largest[30].signals.items() if name != "ratio/p999"}
    found = assess([*largest[:30], Observation(step=30, signals=without), *largest[31:]])
    assert {each.forecast.model for each in found[7:]} == {"ratios"}
    whole = assess(largest)[-1].forecast
    assert found[-1].forecast.probabilities == pytest.approx(whole.probabilities, rel=1e-2)


def test_ratios_that_rise_since_the_beginning_raise_the_forecast():
    """A slow rise, which a moving baseline would follow, is evidence; its size is the logarithm of the factor."""
    forecasts = [
        found.forecast for found in assess(with_ratios(lambda step: 1.2 * 1.01 ** max(0, step - 20), rows=220))
    ]
    assert forecasts[20].probabilities == forecasts[20].base_rates
    assert forecasts[120].probabilities[-1] > forecasts[60].probabilities[-1] > forecasts[20].probabilities[-1]
    model = model_for(DriftInput.LIKELIHOOD, observes_ratios=True)
    rise = math.log(forecasts[219].drivers["ratio_rise"]) / model.weights[1]["ratio_rise"]
    # EMA of weight 0.2 lags a straight line by 0.8 / 0.2 = 4 rows: (219 − 20 − 4) ln 1.01.
    assert rise == pytest.approx(195 * math.log(1.01), rel=1e-6)


def test_ratios_of_a_new_attempt_are_compared_with_the_beginning_of_the_run():
    """A rewind discards the moving history of the ratios, and not where the run began."""
    run = with_ratios(lambda step: 1.2 if step < 30 else 6.0)
    again = [Observation(step=row.step, attempt=2, signals=row.signals) for row in run[40:60]]
    forecast = assess([*run[:50], *again])[-1].forecast
    assert forecast.model == "ratios"
    assert "ratio_rise" in forecast.drivers


@pytest.mark.parametrize("replaced", [0, 1, 30])
def test_a_resume_takes_back_the_rise_of_the_ratios_by_the_replaced_rows_alone(replaced):
    """In the rows whose ratios have no meaning the forecast is that of the checkpoint, and then it goes on from there.

    A trainer that is preempted often resumes every few rows. Each resume would raise the base rate of the forecast if
    its first rows counted as rows without ratios, and leave one noisy ratio in place of an average.
    """
    draw = random.Random(6)  # noqa: S311 - synthetic telemetry
    run = with_ratios(lambda step: 1.2 * 1.03 ** max(0, step - 20) * math.exp(draw.gauss(0.0, 0.3)), rows=100)
    engine = Engine()
    before = [engine.update(row).forecast for row in run[:80]]
    begin = 80 - replaced
    later = [
        engine.update(Observation(step=row.step, attempt=2, signals=row.signals)).forecast for row in run[begin:100]
    ]
    assert {found.model for found in later} == {"ratios"}
    muted, first = later[: MUTED_ROWS - 1], later[MUTED_ROWS - 1]
    assert [found.probabilities for found in muted] == [before[begin - 1].probabilities] * len(muted)

    def rise(found):
        return math.log(found.drivers["ratio_rise"]) / MODELS["ratios"].weights[1]["ratio_rise"]

    origin = statistics.median(math.log(row.signals["ratio/p999"]) for row in run[:20])
    newest = math.log(run[begin + MUTED_ROWS - 1].signals["ratio/p999"]) - origin
    assert rise(first) == pytest.approx(0.8 * rise(muted[-1]) + 0.2 * newest)


def test_a_run_that_sends_no_ratios_after_a_resume_gets_the_other_model_five_rows_after_the_muted_ones():
    """What cannot be used is not missing, and what is missing is."""
    run = with_ratios(lambda step: 1.2 if step < 40 else None)
    again = [Observation(step=row.step, attempt=1 + (row.step >= 40), signals=row.signals) for row in run]
    models = [found.forecast.model for found in assess(again)]
    last = 40 + (MUTED_ROWS - 1) + 5
    assert models[7:last] == ["ratios"] * (last - 7)
    assert models[last:] == ["likelihood"] * (60 - last)


@pytest.mark.parametrize(("back_to", "age"), [(50, 19), (65, 24)])
def test_the_age_of_an_alarm_counts_no_replaced_rows(back_to, age):
    """A run that goes back below the row of an alarm has it anew, and one that goes back to a later row keeps it."""
    evidence, detectors = Evidence(), build_detectors()
    alarm = [Finding("loss_explosion", Severity.WARNING, 60, 2.0, 1.0, "")]
    for step in range(100):
        evidence.follow({}, detectors, alarm if step >= 60 else [])
    evidence.take_back(100 - back_to, back_to)
    for _ in range(20):
        evidence.follow({}, detectors, alarm)
    assert evidence.read(detectors, alarm)["warnings"] == pytest.approx(0.5 ** (age / 20.0))


def test_a_reward_that_is_no_longer_sent_is_no_evidence():
    """A third of the reward is lost before it is sent no more; 25 rows later the loss is not observed."""
    run = []
    for step in range(90):
        signals = {"entropy/mean": 0.4, "likelihood/correct": -0.4 - 1e-9 * (step % 2)}
        reward = {"reward/mean": 0.6 if step < 55 else 0.4} if step < 60 else {}
        run.append(Observation(step=step, signals=signals | reward))
    named = [step for step, found in enumerate(assess(run)) if "fall" in found.forecast.drivers]
    assert named[-1] == 59 + 25
    assert 59 in named


def test_a_collapsed_run_has_no_forecast():
    """After a NaN in the loss there is nothing left to forecast; calm rows bring the forecast back."""
    run = [Observation(step=step, signals={"reward/mean": 0.5, "entropy/mean": 0.4}) for step in range(20)]
    engine = Engine()
    assert engine.update(run[0]).forecast is not None
    broken = engine.update(Observation(step=1, signals={"loss/policy": float("nan")}))
    assert (broken.phase, broken.forecast) == (Phase.COLLAPSED, None)


def test_a_restarted_engine_forecasts_the_same():
    """State through JSON after every row gives the same forecasts, and states without a forecast are accepted."""
    run = [
        Observation(step=row.step, signals=row.signals | {"ratio/p999": 1.2 + 0.02 * row.step}) for row in failing_run()
    ]
    whole, engine = assess(run), Engine()
    assert whole[-1].forecast.model == "ratios"
    for observation, expected in zip(run, whole, strict=True):
        state = json.loads(json.dumps(engine.state()))
        engine = Engine.from_state(state)
        assert engine.update(observation).forecast == expected.forecast
    older = {name: value for name, value in engine.state().items() if name not in {"forecaster", "forecast"}}
    assert Engine.from_state(older).update(Observation(step=10_000, signals={})).forecast is not None


def test_the_odds_ratio_of_a_driver_is_its_own_share_of_the_odds():
    """Odds with the evidence over odds without it, in the second period, are the driver's ratio."""
    model = HazardModel(
        name="metrics", fitted_on="-", intercepts=[-30.0, -3.0, -3.0], weights=[{}, {"fall": 2.0}, {"fall": 1.0}]
    )
    with_it, without = model.forecast({"fall": 0.7}), model.forecast({})
    odds, base = (p.probabilities[1] / (1.0 - p.probabilities[1]) for p in (with_it, without))
    assert with_it.drivers["fall"] == pytest.approx(odds / base, rel=1e-6)
