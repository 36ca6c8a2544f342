"""The pale area where the values of healthy runs were."""

import math

import pytest

from dashboard.figures.curves.panel_view import PanelView
from dashboard.figures.expected import expected_area
from dashboard.figures.run import run_figure
from dashboard.figures.signal import signal_figure

EXPECTED = {"signal": "reward/mean", "steps": [0, 8, 12], "low": [0.2, 0.3], "high": [0.6, 0.7], "runs": 5}


def reward(values):
    return {"signal": "reward/mean", "steps": list(range(len(values))), "values": list(values)}


def path_of(figure):
    """Return the path of the one area of a figure."""
    (area,) = [shape for shape in figure["layout"]["shapes"] if shape.get("name") == "expected"]
    return area["path"]


def test_the_area_follows_the_intervals_up_to_the_last_step():
    """The upper edge forth, the lower edge back; the second interval ends at the run's last step."""
    figure = signal_figure(reward([0.0] * 5 + [1.0] * 6), view=PanelView(), phases=[], alerts=[], expected=EXPECTED)
    assert path_of(figure) == "M0,0.6L8,0.6L8,0.7L10,0.7L10,0.3L8,0.3L8,0.2L0,0.2Z"


def test_a_wide_range_does_not_make_the_curve_small():
    """The area ends 0.6 of the curve's extent beyond it, which on a logarithmic axis is a factor."""
    wide = {**EXPECTED, "low": [-100.0, -100.0], "high": [100.0, 100.0]}
    figure = signal_figure(reward([0.0, 1.0]), view=PanelView(), phases=[], alerts=[], expected=wide)
    assert path_of(figure) == "M0,1.6L1,1.6L1,-0.6L0,-0.6Z"
    wide = {**EXPECTED, "low": [1e-9, 1.0], "high": [1e9, 1.0]}
    (area,) = expected_area(wide, values=[1.0, 100.0], last_step=1, colour="#000", is_log=True)
    low, high = 1 / 100**0.6, 100 * 100**0.6
    assert area["path"] == f"M0,{high:.6g}L1,{high:.6g}L1,{low:.6g}L0,{low:.6g}Z"


def test_the_area_is_placed_in_time():
    """Times are numbers, as those of the curve, so that the browser places both in its time zone."""
    timed = reward([0.0, 1.0]) | {"times": [1.7e9, 1.7e9 + 60]}
    figure = signal_figure(timed, view=PanelView(axis="time"), phases=[], alerts=[], expected=EXPECTED)
    assert path_of(figure).startswith("M1700000000000,0.6L1700000060000,0.6L")


@pytest.mark.parametrize("values", [[], [math.nan, math.inf]])
def test_without_a_curve_there_is_no_area(values):
    """Nothing says where the axis lies."""
    assert expected_area(EXPECTED, values=values, last_step=3, colour="#000") == []


def test_the_vital_signs_have_their_ranges():
    """The area of the reward is on the axis of its panel; a signal without a range has none."""
    series = {"reward/mean": reward([0.0, 1.0]), "grad/norm": {**reward([1.0, 2.0]), "signal": "grad/norm"}}
    figure = run_figure(series=series, phases=[], alerts=[], expected={"reward/mean": EXPECTED})
    (area,) = [shape for shape in figure["layout"]["shapes"] if shape.get("name") == "expected"]
    (line,) = [trace for trace in figure["data"] if trace["name"] == "reward/mean" and trace["meta"]["role"] == "line"]
    assert area["yref"] == line["yaxis"]
