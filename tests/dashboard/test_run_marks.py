"""The events of a run, as marks on its charts."""

from dashboard.figures.curves.panel_view import PanelView
from dashboard.figures.marks.events import mark_lines, mark_trace
from dashboard.figures.panels import PANELS
from dashboard.figures.run import rows_of, run_figure
from dashboard.figures.signal import signal_figure


def mark(kind, step, text="what happened", by=None):
    """Return a mark."""
    return {"kind": kind, "step": step, "time": 1.7e9 + step, "text": text, "by": by}


SERIES = {"signal": "reward/mean", "steps": [0, 1, 2, 3], "values": [0.5] * 4}
TIMED = SERIES | {"times": [10.0, 20.0, 30.0, 40.0]}


def test_marks_of_one_step_are_one_symbol_with_the_words_of_all():
    """A rewind and a rollback are at step 320; the text of a person is text, not markup."""
    marks = [mark("action", 320, "rollback, taken"), mark("rewind", 320), mark("comment", 359, "<b>lr</b>", by="ana")]
    trace = mark_trace(marks, axis="y", height=1.5)
    assert trace["x"] == [320.0, 359.0]
    assert trace["marker"]["symbol"] == ["triangle-left", "circle"]
    assert trace["hovertext"][0] == "<b>action</b><br>rollback, taken<br><b>rewind</b><br>what happened"
    assert trace["hovertext"][1] == "<b>comment by ana</b><br>&lt;b&gt;lr&lt;/b&gt;"


def test_many_marks_of_a_step_and_long_words_stay_short():
    """Five of seven marks are named, and the words of one have six lines at most."""
    (words,) = mark_trace([mark("action", 1, "word " * 200)] * 7, axis="y", height=1.5)["hovertext"]
    assert words.endswith("and 2 more")
    assert words.count("<br>") == 5 * 8


def test_only_attempts_and_rewinds_have_lines():
    """One line for each step."""
    marks = [mark("rewind", 2), mark("attempt", 2), mark("attempt", 3), mark("comment", 1)]
    assert [line["x0"] for line in mark_lines(marks)] == [2, 3]


def test_the_run_figure_has_a_row_for_marks_only_where_there_are_some():
    """The figure is taller by that row, and the panels keep their size."""
    series, marks = {"reward/mean": SERIES}, [mark("attempt", 2)]
    plain = run_figure(series=series, phases=[], alerts=[])
    marked = run_figure(series=series, phases=[], alerts=[], marks=marks)
    assert marked["layout"]["height"] - plain["layout"]["height"] == 18
    assert rows_of(PANELS, series, marks)[1] == marked["layout"]["height"]
    assert [trace["meta"]["role"] for trace in marked["data"]][:2] == ["alerts", "events"]
    assert "events" not in [trace["meta"]["role"] for trace in plain["data"]]


def test_marks_of_a_panel_are_placed_in_time_as_well():
    """Step 2 is at 30 s; the line of the signal stays the first trace, which the browser extends."""
    figure = signal_figure(TIMED, view=PanelView(axis="time"), phases=[], alerts=[], marks=[mark("attempt", 2)])
    assert [trace["meta"]["role"] for trace in figure["data"]] == ["line", "marks", "events"]
    assert figure["data"][-1]["x"] == [30000.0]
    assert [shape["x0"] for shape in figure["layout"]["shapes"] if shape["name"] == "mark"] == [30000.0]
