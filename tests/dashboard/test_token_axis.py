"""The axis by tokens: where steps stand on it, and which step stands at a number of tokens."""

import math

import pytest

from dashboard.figures.curves.panel_view import PanelView
from dashboard.figures.curves.token_axis import TokenAxis, token_signal
from dashboard.figures.signal import signal_figure


def counted(signal, values):
    return {"signal": signal, "steps": list(range(len(values))), "values": list(values)}


@pytest.mark.parametrize(
    ("signals", "found"),
    [
        (["trl/num_tokens", "reward/mean"], "trl/num_tokens"),
        (["num_tokens"], "num_tokens"),
        (["verl/perf/total_num_tokens"], "verl/perf/total_num_tokens"),
        (["generate/avg_num_tokens", "length/mean"], None),
        ([], None),
    ],
)
def test_the_counter_is_known_by_the_end_of_its_name(signals, found):
    """A mean per response is no counter."""
    assert token_signal(signals) == found


def test_a_count_of_each_step_is_summed_and_one_from_the_beginning_is_not():
    """Both give 100, 200, 400; values that are not finite are left out, and a count that falls stays."""
    each = TokenAxis.of(counted("verl/perf/total_num_tokens", [100.0, 100.0, math.nan, 200.0]))
    total = TokenAxis.of(counted("trl/num_tokens", [100.0, 200.0, 50.0, 400.0]))
    assert (each.tokens, each.is_total) == ([100.0, 200.0, 400.0], False)
    assert (total.tokens, total.is_total) == ([100.0, 200.0, 200.0, 400.0], True)
    assert TokenAxis.of(counted("trl/num_tokens", [math.nan])) is None


def test_steps_between_are_placed_evenly_and_found_again():
    """Step 2 of steps 1 and 3 stands in the middle; beyond both ends stands the end."""
    axis = TokenAxis("num_tokens", [1, 3], [100.0, 300.0], is_total=True)
    assert [axis.place(step) for step in (0, 1, 2, 3, 9)] == [100.0, 100.0, 200.0, 300.0, 300.0]
    assert [axis.step_at(tokens) for tokens in (0, 200, 999)] == [1.0, 2.0, 3.0]


def test_curve_and_zoom_follow_the_tokens():
    """The points stand at their tokens, and a zoom in tokens is an interval of steps."""
    axis = TokenAxis("num_tokens", [0, 10], [0.0, 1000.0], is_total=True)
    view = PanelView(axis="tokens", zoom=(200.0, 400.0))
    series = counted("a", [1.0, 2.0])
    figure = signal_figure(series, view=view, phases=[], alerts=[], tokens=axis)
    assert figure["data"][0]["x"] == [0.0, 100.0]
    assert figure["data"][0]["meta"]["tokens"] == "num_tokens"
    assert figure["layout"]["xaxis"]["range"] == [200.0, 400.0]
    assert view.steps_in(series, axis) == (2, 5)
