"""The run figure from hand-written answers: bands, gaps, marks, panels that were not observed, order of rows."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.figures.bands import band_shapes, bands_of
from dashboard.figures.curves.lines import mark_places
from dashboard.figures.curves.panel_view import PanelView
from dashboard.figures.curves.running_sums import running_sum
from dashboard.figures.panels import PANELS, signal_names
from dashboard.figures.run import rows_of, run_figure
from dashboard.pages.run.page_data import RunPageData
from dashboard.theme import PHASES

PHASE_SPANS = [
    {"phase": "warmup", "from_step": 0, "to_step": 21},
    {"phase": "healthy", "from_step": 22, "to_step": 60},
    {"phase": "decay", "from_step": 61, "to_step": None},
]
ALERT = {
    "id": "a",
    "run_id": "r",
    "kind": "death_spiral",
    "severity": "critical",
    "state": "firing",
    "phase": "acceleration",
    "opened_step": 70,
    "severity_step": 75,
    "summary": "Likelihood falls & the norm <surges>",
    "evidence": {},
}


def series(signal, values, *, first=0):
    return {"signal": signal, "steps": list(range(first, first + len(values))), "values": values}


def draw(*held, phases=(), alerts=(), smoothing=0.0):
    return run_figure(series={one["signal"]: one for one in held}, phases=phases, alerts=alerts, smoothing=smoothing)


def lines_of(figure):
    return {trace["meta"]["signal"]: trace for trace in figure["data"] if trace["meta"]["role"] == "line"}


def marks_of(figure, signal):
    return next(t for t in figure["data"] if t["meta"]["role"] == "marks" and t["meta"]["signal"] == signal)


def test_bands_tile_the_steps_without_gap_up_to_the_last_step():
    """Each band ends where the next begins, 22 and 61, and the last one at the last step, 80."""
    bands = bands_of(PHASE_SPANS, 80)
    assert [(band.from_step, band.to_step) for band in bands] == [(0, 22), (22, 61), (61, 80)]
    assert [band.is_current for band in bands] == [False, False, True]


def test_a_phase_that_just_began_has_no_negative_width():
    """A phase may begin at a step that no series has yet."""
    assert bands_of([{"phase": "warmup", "from_step": 5, "to_step": None}], 3)[0].to_step == 5


def test_each_band_stands_pale_behind_the_panels_and_solid_in_the_strip():
    """Two rectangles a band, in the phase's colour; only the current band is marked for growing."""
    shapes = band_shapes(bands_of(PHASE_SPANS, 80), (0.9, 0.95))
    assert [(s["x0"], s["x1"], s["y0"], s["y1"]) for s in shapes[:2]] == [(0, 22, 0.0, 0.9), (0, 22, 0.9, 0.95)]
    assert [s["fillcolor"] for s in shapes[::2]] == [PHASES["warmup"], PHASES["healthy"], PHASES["decay"]]
    assert [s["name"] for s in shapes] == ["band"] * 4 + ["current-band"] * 2


def test_non_finite_values_are_gaps_in_the_line_and_marks_beside_it():
    """The line breaks; marks stand at the height of the last value before, 0.5 and 0.7, and name the value."""
    values = [0.5, math.nan, 0.7, math.inf, -math.inf]
    figure = draw(series("reward/mean", values, first=10))
    assert lines_of(figure)["reward/mean"]["y"] == [0.5, None, 0.7, None, None]
    marks = marks_of(figure, "reward/mean")
    assert (marks["x"], marks["y"]) == ([11, 13, 14], [0.5, 0.7, 0.7])
    assert marks["hovertext"] == ["NaN", "∞", "−∞"]
    assert marks["customdata"] == ["NaN", "Infinity", "-Infinity"]


def test_a_narrow_log_axis_has_ticks_that_can_be_read():
    """Within two decades 1, 2 and 5 of each; over more Plotly's own, and over values among which there may be none."""

    def axis(*values):
        layout = draw(series("grad/norm", list(values)))["layout"]
        return next(held for name, held in layout.items() if name.startswith("yaxis") and held.get("type") == "log")

    digits = axis(0.15, 1.2, 0.0, math.nan, math.inf)
    assert (digits["tickmode"], digits["dtick"]) == ("linear", "D2")
    assert axis(0.01, 50.0)["tickmode"] == "auto"
    assert axis(1.02, 1.8)["tickmode"] == "auto"
    assert axis(0.0)["tickmode"] == "auto"


def test_a_zero_on_a_log_axis_is_marked_not_lost():
    """The gradient norm is drawn on a log axis, which has no place for 0."""
    figure = draw(series("grad/norm", [2.0, 0.0, -12345.678, 4.0]))
    assert lines_of(figure)["grad/norm"]["y"] == [2.0, None, None, 4.0]
    marks = marks_of(figure, "grad/norm")
    assert (marks["x"], marks["y"], marks["hovertext"]) == ([1, 2], [2.0, 2.0], ["0", "−1.235e+04"])
    assert marks["customdata"] == [0.0, -12345.678]


def test_zero_on_a_linear_axis_is_a_value():
    """Only log axes leave zeros out."""
    assert lines_of(draw(series("reward/mean", [0.0, 1.0])))["reward/mean"]["y"] == [0.0, 1.0]


def test_marks_before_the_first_finite_value_take_its_height():
    """NaN, NaN, 3 stand at 3; with no finite value at all, at 1."""
    assert mark_places([math.nan, math.nan, 3.0], [False, False, True]) == [3.0, 3.0, 3.0]
    assert mark_places([math.nan], [False]) == [1.0]


def test_a_figure_without_vital_signs_has_all_steps_of_the_run():
    """The phases reach to the last step of the run, and so does the axis; nothing else tells how far it is."""
    layout = run_figure(series={}, phases=PHASE_SPANS, alerts=[], last_step=90)["layout"]
    assert layout["xaxis"]["autorangeoptions"] == {"clipmin": 0, "clipmax": 90}
    assert [shape["x1"] for shape in layout["shapes"] if shape["name"] == "current-band"] == [90, 90]


def test_the_markers_of_few_points_are_whole():
    """The first and the last one lie on the edges of the panel; a long line has no markers, and ends at the edges."""
    assert lines_of(draw(series("reward/mean", [0.1])))["reward/mean"]["cliponaxis"] is False
    assert lines_of(draw(series("reward/mean", [0.1] * 60)))["reward/mean"]["cliponaxis"] is True


def test_a_panel_without_data_says_what_it_needs():
    """It is neither hidden nor empty, and states the code that would change it."""
    figure = draw(series("reward/mean", [0.1, 0.2]))
    notes = [note["text"] for note in figure["layout"]["annotations"] if note["name"] == "not-observed"]
    (entropy,) = (
        note for note in notes if note.startswith("not observed - needs L3:<br>token entropies from the loss")
    )
    assert "Rollouts(..., entropies=entropies)" in entropy
    assert len(notes) == len(PANELS) - 1


def test_every_panel_shares_the_one_step_axis():
    """Traces differ in y axis only, so that steps align."""
    figure = draw(*(series(signal, [1.0, 2.0]) for signal in signal_names(PANELS)))
    assert {trace["xaxis"] for trace in figure["data"]} == {"x"}
    used = {trace["yaxis"] for trace in figure["data"]}
    assert {f"yaxis{axis[1:]}" for axis in used} == {name for name in figure["layout"] if name.startswith("yaxis")}


def test_rows_lie_below_each_other_inside_the_figure():
    """No two rows overlap from the top on, and the lowest stays above the bottom."""
    rows, height = rows_of(PANELS, {"reward/mean": series("reward/mean", [1.0])})
    edges = [edge for row in rows for edge in (row.top, row.bottom)]
    assert edges == sorted(edges, reverse=True)
    assert edges[0] < 1
    assert edges[-1] > 0
    assert height > 300


def test_alerts_are_lines_across_and_marks_with_their_summary():
    """The mark's text is escaped: summaries are data, not markup. A pending alert is not shown."""
    figure = draw(series("reward/mean", [0.1] * 80), alerts=[ALERT, ALERT | {"state": "pending"}])
    assert [s["x0"] for s in figure["layout"]["shapes"] if s["name"] == "alert"] == [75]
    mark = figure["data"][0]
    assert mark["x"] == [75]
    assert mark["hovertext"] == [
        "<b>critical: death spiral</b><br>Likelihood falls &amp; the norm &lt;surges&gt;",
    ]


def test_a_page_lies_over_the_warning_of_its_step():
    """Both are at step 75: the page is drawn last, in whatever order the collector returns them."""
    warning = ALERT | {"id": "b", "kind": "likelihood_drift", "severity": "warning"}
    for alerts in ([ALERT, warning], [warning, ALERT]):
        figure = draw(series("reward/mean", [0.1] * 80), alerts=alerts)
        assert [text.partition(":")[0] for text in figure["data"][0]["hovertext"]] == ["<b>warning", "<b>critical"]


def test_a_run_without_steps_is_a_figure_of_unobserved_panels():
    """A run may be known before its first step."""
    figure = draw()
    assert [trace["meta"]["role"] for trace in figure["data"]] == ["alerts"]
    json.dumps(figure, allow_nan=False)


def test_a_running_sum_is_taken_before_thinning():
    """Of 1, 2, 3, 4, 5 at most three sums are kept: 1, 1+2+3 = 6 and 1+2+3+4+5 = 15, the last always."""
    thin = running_sum(series("entropy/paired_delta", [1.0, 2.0, 3.0, 4.0, 5.0]), max_points=3)
    assert thin == {"signal": "entropy/paired_delta", "steps": [0, 2, 4], "values": [1.0, 6.0, 15.0]}


def test_a_running_sum_in_an_interval_counts_what_was_before_it():
    """Of 1, 2, 3, 4, 5 the steps 2 to 3 have the sums 6 and 10; an interval without steps has none."""
    whole = series("entropy/paired_delta", [1.0, 2.0, 3.0, 4.0, 5.0])
    part = running_sum(whole, max_points=3, within=(2, 3))
    assert part == {"signal": "entropy/paired_delta", "steps": [2, 3], "values": [6.0, 10.0]}
    assert running_sum(whole, max_points=3, within=(7, 9))["steps"] == []


def test_vital_signs_are_smoothed_and_a_running_sum_is_not():
    """With half the weight a step, 0 and 3 are 0 and (0 × 0.5 + 3) / 1.5 = 2; the values stand pale behind."""
    held = [series("reward/mean", [0.0, 3.0]), series("entropy/paired_delta", [1.0, 1.0])]
    figure = draw(*held, smoothing=0.5)
    line, average = (
        next(
            trace
            for trace in figure["data"]
            if trace["meta"] == {**trace["meta"], "role": role, "signal": "reward/mean"}
        )
        for role in ("line", "average")
    )
    assert (line["y"], line["opacity"] < 1, line["hoverinfo"]) == ([0.0, 3.0], True, "skip")
    assert average["y"] == pytest.approx([0.0, 2.0])
    assert average["yaxis"] == line["yaxis"]
    assert [trace["meta"]["signal"] for trace in figure["data"] if trace["meta"]["role"] == "average"] == [
        "reward/mean"
    ]


def test_of_many_alerts_the_gravest_have_lines_and_all_have_marks():
    """Alerts that fire come first, then the most severe and the newest of those that are resolved."""
    resolved = [
        ALERT | {"state": "resolved", "severity": "info", "opened_step": step, "severity_step": step}
        for step in range(40)
    ]
    critical = ALERT | {"state": "resolved", "opened_step": 3, "severity_step": 3}
    firing = ALERT | {"severity": "info", "opened_step": 1, "severity_step": 1}
    figure = draw(series("reward/mean", [0.1] * 80), alerts=[*resolved, critical, firing])
    lines = {shape["x0"] for shape in figure["layout"]["shapes"] if shape["name"] == "alert"}
    assert lines == {1, 3, *range(30, 40)}
    assert len(figure["data"][0]["x"]) == 42


def test_a_running_sum_goes_on_after_a_nan():
    """1, NaN, 2 sums to 1, NaN, 3."""
    values = running_sum(series("entropy/paired_delta", [1.0, math.nan, 2.0]), max_points=10)["values"]
    assert values[0] == 1.0
    assert math.isnan(values[1])
    assert values[2] == 3.0


@pytest.mark.parametrize("is_thinned", [False, True])
def test_the_page_of_a_run_that_has_lost_steps_says_so_and_shows_no_running_sum(is_thinned, texts):
    """The sum would lack the values of the removed steps, and look like a smaller change."""
    run = {"id": "r", "project": "p", "name": "r", "status": "finished", "phase": "healthy", "thinned": is_thinned}
    held = {signal: series(signal, [1.0, 2.0]) for signal in ("entropy/paired_delta", "entropy/mean")}
    read = RunPageData(run, held, {}, [], [], [], None, [], [], {}, None, PanelView(), {})
    assert ("entropy/paired_delta" in lines_of(read.figure())) is not is_thinned
    assert ("Paired entropy change" in json.dumps(read.figure())) is not is_thinned
    assert any("removed some of the steps" in text for text in texts(read.header())) is is_thinned


def test_a_thinned_running_sum_keeps_what_is_not_finite():
    """Of 100 steps ten are kept, among them NaN and the infinity, which no mark would show otherwise."""
    thin = running_sum(series("s", [1.0] * 50 + [math.nan, math.inf] + [1.0] * 48), max_points=10)
    assert {50, 51, 99} <= set(thin["steps"])
    assert len(thin["steps"]) <= 10
    broken = running_sum(series("s", [math.nan] * 99 + [1.0]), max_points=10)
    assert broken["values"][-1] == 1.0
    assert len(broken["steps"]) <= 10


@given(
    st.lists(st.floats(), max_size=60),
    st.sampled_from(signal_names(PANELS)),
)
def test_any_values_make_a_figure_of_plain_json(values, signal):
    """No NaN reaches the browser as a number, and every step is a point or a mark."""
    held = [series(signal, values)] if values else []
    figure = draw(*held, phases=PHASE_SPANS, alerts=[ALERT])
    json.dumps(figure, allow_nan=False)
    if values:
        drawn = [y for y in lines_of(figure)[signal]["y"] if y is not None]
        assert len(drawn) + len(marks_of(figure, signal)["x"]) == len(values)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=16), min_size=1), st.integers(2, 50))
def test_a_running_sum_keeps_its_last_value_and_its_bound(values, max_points):
    """Thinning never drops the newest sum, and keeps at most the requested number."""
    thin = running_sum(series("s", values), max_points=max_points)
    assert thin["values"][-1] == pytest.approx(sum(values), abs=1e-6)
    assert thin["steps"][-1] == len(values) - 1
    assert len(thin["steps"]) <= max_points
