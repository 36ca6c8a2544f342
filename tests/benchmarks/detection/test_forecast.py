"""Fitting and scoring of the forecast, against numbers that are known."""

import dataclasses
import gzip
import json
import re

import numpy as np
import pytest

from benchmarks.detection.forecast.fitting import as_json, fit, predict
from benchmarks.detection.forecast.reliability import diagram
from benchmarks.detection.forecast.report import suite_scores, suite_section
from benchmarks.detection.forecast.rows import NAMES, Rows, authored_rows, induced_rows
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


def test_the_interval_of_the_calibration_error_is_over_units():
    """Two units of one bin, with p − y of −0.7 and 0.3: draws give 0.7, 0.2 or 0.3."""
    both = score(np.array([0.3, 0.3]), np.array([1.0, 0.0]), np.array(["a", "b"]))
    assert both.calibration_error == pytest.approx(0.2)
    assert both.calibration_interval == pytest.approx((0.2, 0.7))
    alike = score(np.array([0.3] * 4), np.ones(4), np.array(list("aabb")))
    assert alike.calibration_interval == pytest.approx((0.7, 0.7))
    # Errors of opposite signs in different bins do not cancel.
    apart = score(np.array([0.3, 0.7]), np.array([1.0, 0.0]), np.array(["a", "a"]))
    assert apart.calibration_error == pytest.approx(0.7)
    assert apart.calibration_interval == pytest.approx((0.7, 0.7))


def test_a_suite_says_whether_its_calibration_error_is_certainly_within_the_target():
    """The rate is right for certain, a forecast that is wrong for every unit is not, and few units tell nothing."""
    columns = {"yes": [0.5] * 40, "NO": [0.1] * 40}
    for verdict, p in columns.items():
        found = rows(evidence=np.zeros((40, len(NAMES))), ahead=np.tile([5, 90], 20), collapses=np.ones(40, bool))
        found = dataclasses.replace(found, units=np.repeat(np.arange(20).astype(str), 2))
        scores = suite_scores(found, np.stack([p] * 3, axis=1))
        (table, *_) = suite_section("Suite", found, scores).tables
        assert [row[table.header.index("≤ 0.05")] for row in table.rows] == [verdict] * 3
    few = rows(evidence=np.zeros((2, len(NAMES))), ahead=np.array([5, 90]), collapses=np.ones(2, bool))
    (table, *_) = suite_section("Suite", few, suite_scores(few, np.full((2, 3), 0.5))).tables
    assert table.rows[0][table.header.index("≤ 0.05")] == "not certain"


def test_a_right_forecast_lies_on_the_diagonal_of_the_diagram():
    """Each bin is a dot, as far from the left as from the bottom in parts of the axes."""
    right = score(np.array([0.5, 0.5, 0.0]), np.array([1.0, 0.0, 0.0]), np.array(list("abc")))
    drawn = diagram("A & B", {10: right})
    (dashed,) = re.findall(r'x1="(.+?)" y1="(.+?)" x2="(.+?)" y2="(.+?)" stroke="#888"', drawn)
    left, bottom, far, top = map(float, dashed)
    dots = re.findall(r'<circle cx="(.+?)" cy="(.+?)" r=".+?" fill=".+?" fill-opacity', drawn)
    assert len(dots) == 2
    for x, y in dots:
        assert (float(x) - left) / (far - left) == pytest.approx((float(y) - bottom) / (top - bottom), abs=1e-3)
    assert "within 10 rows" in drawn
    assert "A &amp; B" in drawn


def test_pairs_of_suite_d_are_units_and_their_runs_end_before_the_loss(tmp_path):
    """A failing run counts down to its loss, and its healthy twin to its end; one that did not fail is left out."""
    folder = tmp_path / "grpo"
    folder.mkdir()
    for number, quality in ((0, 0.2), (1, 0.9)):
        for kind in ("failing", "healthy"):
            meta = {"failure": "a", "cause": "a", "number": number, "is_sudden": True, "onset": 11}
            lines = [meta] + [
                {"step": step, "quality": quality if kind == "failing" and step > 10 else 0.9,
                 "hooks": {"reward/mean": 0.5, "entropy/mean": 0.4}, "log": {}}
                for step in range(1, 31)
            ]  # fmt: skip
            content = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / f"a-{number}-{kind}.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    found = induced_rows(tmp_path, workers=1)
    assert sorted(set(found.units)) == ["a, pair 0, open seeds", "a, pair 1, unseen seeds"]
    assert found.ahead[found.collapses].tolist() == list(range(10, 0, -1))
    assert (~found.collapses).sum() == 60


def test_rows_of_authored_runs_end_before_the_collapse():
    """One seed of every kind: no row at or after a collapse, and failing runs count down to it."""
    found = authored_rows(range(3, 4), workers=1)
    assert found.evidence.shape == (len(found.ahead), len(NAMES))
    assert (found.evidence >= 0.0).all()
    for unit in np.unique(found.units[found.collapses]):
        np.testing.assert_array_equal(np.diff(found.ahead[found.units == unit]), -1)
        assert found.ahead[found.units == unit][-1] == 1
