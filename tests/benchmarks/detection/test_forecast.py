"""Fitting and scoring of the forecast, against numbers that are known."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks.detection.forecast.fitting import as_json, fit, predict
from benchmarks.detection.forecast.rows import NAMES, Rows, authored_rows
from benchmarks.detection.forecast.scores import score
from monitor_server.detection.forecast.hazard import MODELS, HazardModel


def rows(*, evidence, ahead, collapses):
    """Return rows that are units of their own."""
    units = np.array([str(place) for place in range(len(ahead))])
    has_ratios = np.zeros(len(ahead), bool)
    return Rows(evidence=evidence, ahead=ahead, collapses=collapses, units=units, groups=units, has_ratios=has_ratios)


def test_outcomes_are_unknown_where_a_run_ends_before_the_horizon():
    """A collapse counts from its row on. Beyond the end of a run without a collapse the outcome is unknown."""
    found = rows(
        evidence=np.zeros((5, len(NAMES))),
        ahead=np.array([10, 11, 9, 10, 3]),
        collapses=np.array([True, True, False, False, True]),
    )
    np.testing.assert_array_equal(found.outcomes(10), [1.0, 0.0, np.nan, 0.0, 1.0])


def test_a_fit_finds_the_weights_that_made_the_data():
    """From 40,000 rows with known hazards the intercepts and weights come back, and useless evidence weighs little."""
    draw = np.random.default_rng(1)
    evidence = np.zeros((40_000, len(NAMES)))
    evidence[:, :2] = draw.exponential(1.0, size=(40_000, 2))
    hazards = 1.0 / (1.0 + np.exp(2.0 - 1.2 * evidence[:, :1] - np.array([[0.0, 0.4, 0.4]])))
    dies = np.concatenate([draw.random((40_000, 3)) < hazards, np.ones((40_000, 1), bool)], axis=1)
    periods = np.argmax(dies, axis=1)
    ahead = np.array([5, 20, 40, 60])[periods]
    data = rows(evidence=evidence, ahead=ahead, collapses=np.ones(40_000, bool))
    model = fit(data, name="metrics", fitted_on="made", penalty=1e-6)
    assert model.intercepts == pytest.approx([-2.0, -1.6, -1.6], abs=0.15)
    assert [weights[NAMES[0]] for weights in model.weights] == pytest.approx([1.2, 1.2, 1.2], abs=0.15)
    assert all(weights.get(NAMES[1], 0.0) < 0.1 for weights in model.weights)
    one = model.forecast({NAMES[0]: 1.5}).probabilities
    vector = np.zeros((1, len(NAMES)))
    vector[0, 0] = 1.5
    np.testing.assert_allclose(predict(model, vector)[0], one, rtol=1e-12)


def test_a_model_that_is_written_is_read_as_the_same():
    """The package reads it when it is imported."""
    for model in MODELS.values():
        assert HazardModel(name=model.name, **json.loads(json.dumps(as_json(model)))) == model


def test_rows_without_ratios_keep_all_other_evidence():
    """Hiding the ratios sets their evidence to 0 and the mark that chooses the model."""
    found = rows(evidence=np.ones((3, len(NAMES))), ahead=np.arange(3), collapses=np.ones(3, bool))
    hidden = dataclasses.replace(found, has_ratios=np.ones(3, bool)).without_ratios()
    assert not hidden.has_ratios.any()
    assert [name for name, value in zip(NAMES, hidden.evidence[0], strict=True) if value == 0.0] == ["ratio_rise"]
    assert found.evidence.all()


def test_scores_of_probabilities_that_are_known():
    """Brier score, gain over the rate, calibration error and net benefit, computed by hand."""
    outcomes = np.array([1.0, 0.0, 0.0, 0.0, np.nan])
    found = score(np.array([0.7, 0.3, 0.0, 0.0, 0.9]), outcomes, np.array(list("abcde")))
    assert (found.rows, found.rate) == (4, 0.25)
    assert found.brier == pytest.approx((0.09 + 0.09) / 4)
    assert found.gain == pytest.approx(0.25 * 0.75 - found.brier)
    assert found.calibration_error == pytest.approx((0.3 + 0.3) / 4)
    assert found.net_benefit == pytest.approx((1.0 - 0.25) / 4)
    assert found.gain_interval[0] <= found.gain <= found.gain_interval[1]


def test_rows_of_authored_runs_end_before_the_collapse():
    """One seed of every kind: no row at or after a collapse, and failing runs count down to it."""
    found = authored_rows(range(3, 4), workers=1)
    assert found.evidence.shape == (len(found.ahead), len(NAMES))
    assert (found.evidence >= 0.0).all()
    for unit in np.unique(found.units[found.collapses]):
        np.testing.assert_array_equal(np.diff(found.ahead[found.units == unit]), -1)
        assert found.ahead[found.units == unit][-1] == 1
