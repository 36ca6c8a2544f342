"""The streaming statistics against arithmetic done by hand and against numpy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.robust import line, long_run_factor, median, median_distance, noise_scale
from monitor_server.detection.statistics.streaming import Cusum, DrawUp, Ema

values = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40)


def test_cusum_adds_what_exceeds_the_slack_and_caps_each_value():
    """S follows max(0, S + clip(z, 4) − 0.25), and remembers when it left zero."""
    cusum = Cusum(slack=0.25, cap=4.0)
    # 0 + 0.2 − 0.25 < 0 → 0;  0 + 1 − 0.25 = 0.75;  0.75 + 9 capped to 4 − 0.25 = 4.5;  4.5 − 1 − 0.25 = 3.25
    assert [cusum.update(z, step) for step, z in enumerate([0.2, 1.0, 9.0, -1.0])] == [0.0, 0.75, 4.5, 3.25]
    assert cusum.since == 1
    # 3.25 − 9 capped to −4 − 0.25 < 0 → 0
    assert cusum.update(-9.0, 4) == 0.0
    assert cusum.since is None


def test_ema_begins_as_a_plain_mean():
    """With α = 0.1 the first ten values weigh alike."""
    ema = Ema(0.1)
    # means of 1; 1,3; 1,3,8
    assert [ema.update(x) for x in (1.0, 3.0, 8.0)] == [1.0, 2.0, 4.0]
    for _ in range(20):
        ema.update(4.0)
    assert ema.update(5.0) == pytest.approx(4.0 + 0.1 * 1.0)


def test_draw_up_measures_from_the_lowest_average():
    """The rise counts from the lowest average, whose step is the onset."""
    draw_up = DrawUp(alpha=1.0, settle=1)
    assert [draw_up.update(x, step) for step, x in enumerate([3.0, 1.0, 1.5, 2.0])] == [0.0, 0.0, 0.5, 1.0]
    assert draw_up.since == 1


@pytest.mark.parametrize("momentum", [False, True])
def test_a_noise_scale_that_is_read_late_is_the_one_of_its_row(*, momentum: bool):
    """The scale is computed when it is read; a state that is saved in between holds the same number."""
    noise = np.random.default_rng(3).normal(0.0, 1.0, 90).tolist()
    often, seldom = (History(length=40, lag=3, turn=5, momentum=momentum) for _ in range(2))
    for row, value in enumerate(noise):
        often.append(value)
        seldom.append(value)
        assert often.scale == pytest.approx(often.state()["scale"], abs=0.0)
        if row % 11 == 7:
            assert seldom.has_scale
            assert seldom.state() == often.state()
            seldom = History(length=40, lag=3, turn=5, momentum=momentum)
            seldom.load(often.state())


def test_noise_scale_takes_the_median_difference():
    """σ = 1.4826 · median |difference| / √2, indifferent to one spike."""
    # |differences| of 0, 1, 0, 100, 0, 1 are 1, 1, 100, 100, 1 → median 1
    assert noise_scale([0.0, 1.0, 0.0, 100.0, 0.0, 1.0]) == pytest.approx(1.4826 / math.sqrt(2))


def test_noise_scale_finds_the_deviation_of_white_noise():
    """On 4,000 normal numbers around a slow trend it is right to 5 %."""
    noise = np.random.default_rng(1).normal(0.0, 0.3, 4000) + np.linspace(0, 5, 4000)
    assert noise_scale(list(noise)) == pytest.approx(0.3, rel=0.05)


def test_noise_scale_and_long_run_factor_give_the_long_run_deviation():
    """Shocks of deviation 1 in an AR(1) of ρ wander by √n / (1 − ρ): 1 for white noise, 2.5 for ρ = 0.6."""
    rng = np.random.default_rng(2)
    for rho in (0.0, 0.6):
        series = [0.0]
        for shock in rng.normal(size=4000):
            series.append(rho * series[-1] + shock)
        assert noise_scale(series) * long_run_factor(series) == pytest.approx(1 / (1 - rho), rel=0.1)


def test_innovation_is_measured_in_standard_errors_of_the_prediction():
    """On an exact line the next point of the line is no surprise, and a step above it is one."""
    history = History(length=20, lag=0, least=8, floor=0.5)
    for i in range(8):
        history.append(float(i))
    assert history.scale is not None
    # The line predicts 8. Against the median 3.5 it would look high, but the smaller of the two counts.
    assert history.innovation(8.0) == pytest.approx(0.0, abs=1e-9)
    # n = 8: Σ(t − t̄)² = 8 · 63 / 12 = 42; t − t̄ = 8 − 3.5 = 4.5; error = σ √(1 + 1/8 + 4.5² / 42)
    error = history.scale * math.sqrt(1 + 1 / 8 + 4.5**2 / 42)
    assert history.innovation(10.0) == pytest.approx(2.0 / error)


@given(values)
def test_line_and_median_agree_with_numpy(series):
    """Mean, slope and median are the textbook ones."""
    mean, slope = line(series)
    assert mean == pytest.approx(float(np.mean(series)), abs=1e-9, rel=1e-9)
    assert slope == pytest.approx(float(np.polyfit(np.arange(len(series)), series, 1)[0]), abs=1e-7, rel=1e-6)
    assert median(series) == float(np.median(series))


@given(values, st.floats(-1e3, 1e3))
def test_the_median_distance_is_the_median_of_all_distances(series, centre):
    """They are equal to the last bit, also with equal values and a centre outside of them."""
    for ordered in (sorted(series), sorted(float(round(value)) for value in series)):
        assert median_distance(ordered, centre) == median([abs(value - centre) for value in ordered])
    assert median_distance([2.0], 5.0) == 3.0
