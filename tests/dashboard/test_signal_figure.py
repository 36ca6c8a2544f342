"""A signal as a panel of the workspace, and the moving average in it."""

import json
import math

import pytest

from dashboard.components.run.workspace import groups_of
from dashboard.figures.curves.outliers import inner_range
from dashboard.figures.curves.panel_view import PanelView
from dashboard.figures.curves.smoothing import smooth, smoothing_unit
from dashboard.figures.signal import merge, signal_figure


def series(steps, values, times=None):
    held = {"signal": "a/b", "steps": list(steps), "values": list(values)}
    return held if times is None else held | {"times": list(times)}


def test_the_average_weighs_by_distance():
    """With s = 0.5: at 1 (0 × 0.5 + 3) / (0.5 + 1) = 2; at 3, two steps on, (3 × 0.25 + 4) / (1.5 × 0.25 + 1)."""
    curve = smooth([0.0, 1.0, 3.0], [0.0, 3.0, 4.0], smoothing=0.5, unit=1.0)
    assert curve.values == pytest.approx([0.0, 2.0, 4.75 / 1.375])
    assert (curve.total, curve.weight) == pytest.approx((4.75, 1.375))


def test_what_is_not_finite_is_no_part_of_the_average():
    """The curve has a gap there, and goes on as if the point had not been."""
    curve = smooth([0.0, 1.0, 2.0], [1.0, math.nan, 1.0], smoothing=0.9, unit=1.0)
    assert curve.values == [1.0, None, 1.0]


def test_the_unit_is_a_step_of_a_short_curve_and_a_thousandth_of_a_long_one():
    """A thinned curve of 20,000 steps is smoothed as far as a short one looks."""
    assert smoothing_unit([float(step) for step in range(101)]) == 1.0
    assert smoothing_unit([0.0, *map(float, range(10, 20001))]) == pytest.approx(20.0)
    assert smoothing_unit([5.0]) == smoothing_unit([]) == 1.0


def test_places_as_near_as_numbers_can_be_are_smoothed():
    """Half of the smallest positive number is 0, and no distance can be divided by that."""
    places = [0.0, 5e-324, 5e-324]
    assert smooth(places, [1.0, 2.0, 3.0], smoothing=0.9, unit=smoothing_unit(places)).values == [1.0, 1.5, 2.0]


def test_a_panel_has_raw_values_and_the_average_over_them():
    """Without smoothing there is only the line with its marks."""
    plain = signal_figure(series(range(3), [1.0, 2.0, math.nan]), view=PanelView(), phases=[], alerts=[])
    assert [trace["meta"]["role"] for trace in plain["data"]] == ["line", "marks"]
    averaged = signal_figure(series(range(3), [1.0, 2.0, 3.0]), view=PanelView(smoothing=0.5), phases=[], alerts=[])
    assert [trace["meta"]["role"] for trace in averaged["data"]] == ["line", "marks", "average"]


def test_the_average_of_a_thinned_line_is_that_of_all_its_values():
    """A point that is the mean of so many values weighs as they do, and the unit is that of all values.

    With s = 0.5 and a unit of 2, at 3 it is (2 × 0.5 × 1 + 4) / (2 × 0.5 + 1).
    """
    means = series([1, 3], [1.0, 4.0]) | {"counts": [2, 2]}
    assert smoothing_unit([1.0, 3.0], [2, 2]) == pytest.approx(2 / 3)
    curve = smooth([1.0, 3.0], [1.0, 4.0], smoothing=0.5, unit=2.0, counts=[2, 1])
    assert curve.values == pytest.approx([1.0, (2 * 0.5 * 1.0 + 4.0) / (2 * 0.5 + 1)])
    view = PanelView(smoothing=0.5)
    line, _, average = signal_figure(series([0, 3], [0.0, 9.0]), view=view, phases=[], alerts=[], means=means)["data"]
    assert (line["x"], line["y"]) == ([0, 3], [0.0, 9.0])
    assert (average["x"], average["y"][0]) == ([1, 3], 1.0)
    assert (average["meta"]["last_step"], average["meta"]["last"]) == (3, 3.0)


def test_a_value_between_two_gaps_has_a_dot():
    """A line without dots would not show it: a reward that is 0 in two of three steps would be an empty log chart."""
    values = [0.5 if step % 3 == 0 else 0.0 for step in range(60)]
    drawn = signal_figure(series(range(60), values), view=PanelView(is_log=True), phases=[], alerts=[])["data"][0]
    assert drawn["mode"] == "lines+markers"
    assert [size > 0 for size in drawn["marker"]["size"]] == [value > 0 for value in values]
    whole = signal_figure(series(range(60), values), view=PanelView(), phases=[], alerts=[])["data"][0]
    assert whole["mode"] == "lines"


def test_phases_and_alerts_are_placed_in_time_as_well():
    """A phase from step 2 on begins at the time of step 2."""
    phases = [{"phase": "healthy", "from_step": 0, "to_step": 1}, {"phase": "decay", "from_step": 2, "to_step": None}]
    timed = series(range(4), [1.0] * 4, times=[10.0, 20.0, 30.0, 40.0])
    figure = signal_figure(timed, view=PanelView(axis="time"), phases=phases, alerts=[])
    assert figure["data"][0]["x"] == [10000.0, 20000.0, 30000.0, 40000.0]
    assert {shape["x0"] for shape in figure["layout"]["shapes"]} == {10000.0, 30000.0}


def test_finer_points_replace_those_of_their_interval():
    """Points outside the interval stay thinned."""
    coarse, fine = series([0, 10, 20, 30], [0.0] * 4), series([9, 10, 11, 20], [1.0] * 4)
    whole = merge(coarse, fine)
    assert whole["steps"] == [0, 9, 10, 11, 20, 30]
    assert whole["values"] == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert merge(coarse, series([], [])) is coarse


@pytest.mark.parametrize(
    ("asked", "view"),
    [
        (
            {"smoothing": 2, "axis": "time", "scale": "log", "zoom": [1, 5]},
            PanelView(smoothing=0.999, axis="time", is_log=True, zoom=(1, 5)),
        ),
        ({"smoothing": "much", "axis": 3, "scale": None, "zoom": [5, 1]}, PanelView()),
        ({"zoom": ["a", 1]}, PanelView()),
    ],
    ids=["used", "unusable", "half a zoom"],
)
def test_what_cannot_be_used_has_no_effect(asked, view):
    """The browser's wishes are read with care."""
    assert PanelView.read(asked) == view


def test_a_zoom_in_time_is_an_interval_of_steps():
    """The steps around both ends."""
    timed = series(range(4), [1.0] * 4, times=[10.0, 20.0, 30.0, 40.0])
    assert PanelView(axis="time", zoom=(21.0, 29.0)).steps_in(timed) == (1, 2)
    set_back = {**timed, "times": [10.0, 20.0, 30.0, 15.0]}
    assert PanelView(axis="time", zoom=(12.0, 21.0)).steps_in(set_back) == (0, 3)
    assert PanelView(zoom=(1.5, 2.5)).steps_in(timed) == (1, 3)
    assert PanelView().steps_in(timed) is None


def test_signals_are_grouped_by_the_first_part_of_their_names():
    """Signals without a slash come last."""
    assert groups_of(["loss", "b/x", "a/y", "a/x"]) == {"a": ["a/x", "a/y"], "b": ["b/x"], "other": ["loss"]}


def test_a_logarithmic_axis_of_steps_begins_at_the_first_step_that_has_a_place_on_it():
    """A phase and an attempt that begin at step 0 begin at step 2; the ends of a zoom are exponents of ten."""
    phases = [{"phase": "healthy", "from_step": 0, "to_step": None}]
    marks = [{"step": 0, "kind": "attempt", "text": "attempt 1", "by": None, "at": 0.0}]
    view = PanelView(axis="log", zoom=(10.0, 100.0))
    figure = signal_figure(series([0, 2, 100], [1.0] * 3), view=view, phases=phases, alerts=[], marks=marks)
    assert {shape["x0"] for shape in figure["layout"]["shapes"]} == {2.0}
    assert figure["layout"]["xaxis"]["type"] == "log"
    assert figure["layout"]["xaxis"]["range"] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("view", "ends"),
    [
        (PanelView(zoom=(2, 4)), (0.02 - 0.0012, 0.04 + 0.0012)),  # 6 % of 0.02 at either end
        (
            PanelView(zoom=(2, 4), is_log=True),
            (math.log10(0.02) - 0.018, math.log10(0.04) + 0.018),
        ),  # of log10 2 = 0.301
        (PanelView(axis="time", zoom=(120, 240)), (0.02 - 0.0012, 0.04 + 0.0012)),
        (PanelView(zoom=(2, 9)), None),
        (PanelView(), None),
    ],
    ids=["steps", "logarithm", "time", "to the last step", "all"],
)
def test_the_values_of_a_zoom_fill_the_panel(view, ends):
    """Where the run goes on in the interval, the axis stays free, because a pushed value may lie anywhere."""
    values = [1.0, 0.5, 0.02, math.nan, 0.04, *[0.9] * 5]
    timed = series(range(10), values, times=[60.0 * step for step in range(10)])
    axis = signal_figure(timed, view=view, phases=[], alerts=[])["layout"]["yaxis"]
    assert axis.get("range") == (None if ends is None else pytest.approx(ends, abs=1e-4))


def test_outliers_are_left_out_and_counted():
    """Of 99 values between 0 and 1 and one of 1,000, the axis shows the 99 and states that one is outside."""
    values = [step / 98 for step in range(99)] + [1000.0]
    clipped = PanelView(is_clipped=True)
    layout = signal_figure(series(range(100), values), view=clipped, phases=[], alerts=[])["layout"]
    low, high = layout["yaxis"]["range"]
    assert (low, high) == pytest.approx((0.0, 1.0), abs=0.1)
    assert layout["annotations"][0]["text"] == "1 of 100 drawn points outside"
    shown = signal_figure(series(range(100), values), view=PanelView(), phases=[], alerts=[])["layout"]
    assert "range" not in shown["yaxis"]
    zoomed = PanelView(is_clipped=True, zoom=(0.0, 50.0))
    layout = signal_figure(series(range(100), values), view=zoomed, phases=[], alerts=[])["layout"]
    assert layout["yaxis"].get("range", [0, 0])[1] < 0.6


def test_a_loss_near_the_largest_number_is_drawn_with_what_follows():
    """Its axis is left to Plotly, because the distance of its ends is no number; the average begins anew."""
    values = [-1e308, 1.7e308] * 30 + [2.0] * 30
    view = PanelView(is_clipped=True, zoom=(0.0, 50.0), smoothing=0.9)
    figure = signal_figure(series(range(90), values), view=view, phases=[], alerts=[])
    json.dumps(figure, allow_nan=False)
    assert "range" not in figure["layout"]["yaxis"]


@pytest.mark.parametrize(
    ("values", "is_log", "expected"),
    [
        ([1.0] * 39 + [1e9], False, 1),
        ([1.0] * 38 + [1e9], False, None),
        ([1.0] * 50, False, None),
        ([0.0, math.nan, *[1.0] * 60, 1e30, math.inf], True, 1),
    ],
    ids=["one of forty", "too few", "none", "not finite"],
)
def test_outliers_are_what_lies_beyond_the_percentiles(values, is_log, expected):
    """Values that are not finite, or not positive on a logarithmic axis, are not counted."""
    found = inner_range(values, is_log=is_log)
    assert (None if found is None else found[1]) == expected
