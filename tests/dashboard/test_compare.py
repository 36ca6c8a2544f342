"""Runs laid over each other, and where their configurations differ."""

import asyncio

import pytest

from dashboard.components.compare.tables import config_differences, differences, legend, outcomes
from dashboard.figures.compared_runs import ALIGNMENTS, Compared, origin_step, seed_of, setting_of, steps_within
from dashboard.figures.overlay import COLOURS, overlay_figure, style_of
from dashboard.pages.compare.comparison import ComparisonChoice, read_comparison
from tests.live import eventually

OPTIONS = {"align": "step", "smoothing": 0.0, "is_log": False, "is_grouped": False}
LENGTHS = {"one step": 1, "some": 25, "long": 1000, "short": 20}
DYING = [
    {"phase": "healthy", "from_step": 0, "to_step": 1},
    {"phase": "acceleration", "from_step": 2, "to_step": 2},
    {"phase": "collapsed", "from_step": 3, "to_step": None},
]


def compared(name, values, *, place=0, phases=(), config=None):
    steps = list(range(len(values)))
    times = [1000.0 + 3600 * step for step in steps]
    series = {"signal": "reward/mean", "steps": steps, "values": values, "times": times}
    run = {
        "id": name,
        "name": name,
        "phase": "healthy",
        "status": "running",
        "last_step": len(values) - 1,
        "config": config,
    }
    return Compared(run, list(phases), {"reward/mean": series}, place)


def test_each_run_is_a_line_of_its_own_colour():
    """In the order in which they were chosen; a run without the signal is left out."""
    runs = [compared("a", [1.0, 2.0]), compared("b", [3.0, 4.0], place=1), Compared({"name": "c"}, [], {}, 2)]
    lines = overlay_figure("reward/mean", runs, **OPTIONS)["data"]
    assert [(line["name"], line["y"], line["line"]["color"]) for line in lines] == [
        ("a", [1.0, 2.0], COLOURS[0]),
        ("b", [3.0, 4.0], COLOURS[1]),
    ]


def test_the_name_of_a_run_is_no_html():
    """Plotly reads names as HTML, so that the label of a step would show λ<0.1> and λ<0.3> as the same name."""
    (line,) = overlay_figure("reward/mean", [compared("λ<0.1>", [1.0, 2.0])], **OPTIONS)["data"]
    assert (line["name"], line["meta"]["name"]) == ("λ&lt;0.1&gt;", "λ<0.1>")


def test_a_short_run_is_seen_beside_a_long_one():
    """Its line is above those of twice its length, and has dots where it is shorter than a fiftieth of the axis."""
    runs = [compared(name, [1.0] * steps, place=place) for place, (name, steps) in enumerate(LENGTHS.items())]
    lines = overlay_figure("reward/mean", runs, **OPTIONS)["data"]
    assert [(line["name"], line["mode"], line["zorder"]) for line in lines] == [
        ("one step", "lines+markers", 6),
        ("some", "lines", 5),
        ("long", "lines", 0),
        ("short", "lines+markers", 6),
    ]
    (line,) = overlay_figure("reward/mean", runs[:1], **OPTIONS)["data"]
    assert line["mode"] == "lines+markers"
    (line,) = overlay_figure("reward/mean", runs[:1], **OPTIONS | {"zoom": (5, 6)})["data"]
    assert line["x"] == []


def test_twenty_runs_look_different():
    """They differ by colour and dash pattern."""
    assert len({style_of(place) for place in range(20)}) == 20


@pytest.mark.parametrize(
    ("align", "where"),
    [
        ("step", [0, 1, 2, 3]),
        ("share", [0, 1 / 3, 2 / 3, 1]),
        ("time", [0, 1, 2, 3]),
        ("acceleration", [-2, -1, 0, 1]),
        ("collapse", [-3, -2, -1, 0]),
    ],
)
def test_runs_are_aligned_as_asked(align, where):
    """They are aligned by step, share of the run, hours, or the step at which phase III or the collapse began."""
    run = compared("a", [1.0] * 4, phases=DYING)
    (line,) = overlay_figure("reward/mean", [run], **OPTIONS | {"align": align})["data"]
    assert line["x"] == pytest.approx(where)


@pytest.mark.parametrize("align", ALIGNMENTS)
def test_a_run_without_points_has_no_line(align):
    """Its only step is 0, and the signal was not observed there."""
    run = compared("a", [])
    run.run["last_step"] = 0
    assert overlay_figure("reward/mean", [run], **OPTIONS | {"align": align})["data"] == []


def test_a_chart_without_a_line_says_why():
    """No run has accelerated, or every value is below zero on a logarithmic axis; else the chart has no text."""

    def notes(values, **options):
        layout = overlay_figure("reward/mean", [compared("a", values)], **OPTIONS | options)["layout"]
        return [note["text"] for note in layout.get("annotations", [])]

    assert notes([1.0], align="acceleration") == ["no run with this signal has accelerated"]
    assert notes([-1.0, 0.0], is_log=True) == ["no value is above zero"]
    assert notes([-1.0, 2.0], is_log=True) == notes([-1.0]) == []


def test_a_log_axis_has_gaps_where_it_has_no_place():
    """Plotly would draw a line to the foot of the chart, as if the value were tiny."""
    (line,) = overlay_figure("reward/mean", [compared("a", [0.5, 0.0, -1.0, 2.0])], **OPTIONS | {"is_log": True})[
        "data"
    ]
    assert line["y"] == [0.5, None, None, 2.0]
    assert line["marker"]["size"] == [4, 0, 0, 4]  # both values are alone between gaps


def test_a_run_that_never_accelerated_is_not_aligned_by_that():
    """The run is not drawn and gets no step, which the legend says beside a run that is drawn."""
    runs = [compared("a", [1.0] * 4, place=1), compared("b", [1.0] * 4, phases=DYING)]
    (line,) = overlay_figure("reward/mean", runs, **OPTIONS | {"align": "acceleration"})["data"]
    assert (line["name"], origin_step([], "acceleration")) == ("b", None)
    for is_grouped in (False, True):
        first, second = legend(runs, align="acceleration", is_grouped=is_grouped).children
        assert "not drawn: has not accelerated" in str(first)
        assert "not drawn" not in str(second)
        assert "not drawn" not in str(legend(runs, align="step", is_grouped=is_grouped))


def test_a_zoom_shows_the_points_of_its_interval():
    """The average there is that of the whole curve; the requested steps reach the points beside the interval."""
    run = compared("a", [0.0, 3.0, 3.0, 3.0, 9.0], phases=DYING)
    (line,) = overlay_figure("reward/mean", [run], **OPTIONS | {"smoothing": 0.5, "zoom": (1, 2)})["data"]
    assert (line["x"], line["y"][0]) == ([1, 2], pytest.approx(2.0))  # (0 × 0.5 + 3) / 1.5
    figure = overlay_figure("reward/mean", [run], **OPTIONS | {"align": "collapse", "zoom": (-1, 1)})
    assert figure["data"][0]["x"] == [-1, 0, 1]
    assert figure["layout"]["xaxis"]["range"] == [-1, 1]
    assert steps_within(run, "collapse", (-1, 0)) == (1, 4)
    assert steps_within(run, "step", (7, 9)) is None


def test_seeds_of_a_setting_are_their_median_and_range():
    """Three seeds are one curve with a band; another setting has its own curve."""
    runs = [compared(f"grpo-seed{seed}", [float(seed)] * 4, place=seed) for seed in range(3)]
    runs.append(compared("llds-seed0", [9.0] * 4, place=3))
    traces = overlay_figure("reward/mean", runs, **OPTIONS | {"is_grouped": True})["data"]
    highest, lowest, middle, *_ = traces
    assert [set(trace["y"]) for trace in (highest, lowest, middle)] == [{2.0}, {0.0}, {1.0}]
    assert [trace["name"] for trace in (highest, lowest, middle)] == ["grpo (largest)", "grpo (least)", "grpo (3)"]
    assert len(traces) == 6


def test_the_seeds_of_a_setting_are_smoothed_before_they_are_joined():
    """Each seed alternates between 0 and 1; its moving average, and so the median, stays near a half."""
    runs = [
        compared(f"grpo-seed{seed}", [float((step + seed) % 2) for step in range(40)], place=seed) for seed in (0, 2)
    ]
    grouped = OPTIONS | {"is_grouped": True}
    raw, smooth = (
        overlay_figure("reward/mean", runs, **grouped | {"smoothing": smoothing})["data"][2]["y"]
        for smoothing in (0.0, 0.95)
    )
    assert {min(raw), max(raw)} == {0.0, 1.0}
    assert max(smooth[10:]) - min(smooth[10:]) < 0.2  # it begins at the first value


def test_what_is_averaged_is_read_as_means(start_collector, texts):
    """Of 4,000 steps, every twentieth has a spike of 20 on zero, and the last is NaN: all is shown as it is.

    The mean of the signal is 1; that of the least and the largest value of each section is many times more.
    """
    live = start_collector()
    values = [20.0 * (step % 20 == 0) for step in range(4000)]
    values[2010], values[2011], values[3999] = 50.0, "NaN", "NaN"
    records = [{"step": step, "scalars": {"reward/mean": value}} for step, value in enumerate(values)]
    run_id = live.run(run="long-seed0", records=records)
    for grouped, smoothing in (("seeds", 0.0), ("runs", 0.99), ("seeds", 0.99)):
        choice = ComparisonChoice.of([run_id], ["reward/mean"], "step", "linear", grouped, smoothing, None)
        found = asyncio.run(read_comparison(live.url, choice))
        line = found.figures()["reward/mean"]["data"][-1]
        shown = [value for value in line["y"][20:] if value is not None]
        assert sum(shown) / len(shown) == pytest.approx(1.0, abs=0.1)
        assert ("smoothed" in line["hovertemplate"], "median" in line["hovertemplate"]) == (
            smoothing > 0,
            grouped == "seeds",
        )
        assert (line["meta"].get("role") == "average") == (smoothing > 0)  # the saved file says so
        cells = texts(outcomes(found.runs, {}))
        assert cells[cells.index("3,999") + 1 :][:2] == ["50", "0"]


def test_hours_are_counted_from_the_first_step_of_the_run(start_collector):
    """A signal that comes an hour later begins at hour 1, whichever other signals are chosen."""
    live = start_collector()
    records = [
        {"step": at, "time": 1e6 + 1800 * at, "scalars": {"a": 1.0} | ({"b": 2.0} if at > 1 else {})} for at in range(4)
    ]
    run_id = live.run(run="r", records=records)
    choice = ComparisonChoice.of([run_id], ["b"], "time", "linear", "runs", 0.0, None)
    (line,) = asyncio.run(read_comparison(live.url, choice)).figures()["b"]["data"]
    assert line["x"] == pytest.approx([1.0, 1.5])


def test_a_setting_has_one_colour_in_every_chart_and_in_the_legend():
    """This holds for a signal that an earlier setting does not have; the legend names the setting and its seeds."""
    bare = Compared({"id": "0", "name": "bare-seed0", "phase": "healthy", "last_step": 3}, [], {}, 0)
    runs = [bare, *(compared(f"grpo-seed{seed}", [1.0] * 4, place=seed) for seed in (1, 2))]
    traces = overlay_figure("reward/mean", runs, **OPTIONS | {"is_grouped": True})["data"]
    assert [trace["line"]["color"] for trace in traces] == [COLOURS[1]] * 3
    drawn = str(legend(runs, align="step", is_grouped=True).to_plotly_json())
    assert "Strong('grpo')" in drawn
    assert "Link(children='seed1'" in drawn
    assert (
        drawn.index(COLOURS[0])
        < drawn.index("Strong('bare')")
        < drawn.index(COLOURS[1])
        < drawn.index("Strong('grpo')")
    )
    assert "grpo-seed2" in str(legend(runs, align="step", is_grouped=False).to_plotly_json())
    assert [seed_of({"name": name}) for name in ("a-seed3", "seed3", "plain")] == ["seed3", "seed3", "plain"]


@pytest.mark.parametrize("name", ["grpo-seed3", "grpo_seed=3", "grpo/seed 3"])
def test_a_setting_is_a_name_without_its_seed(name):
    """Any separator may stand between the name and the seed."""
    assert setting_of({"name": name}) == "grpo"


def test_settings_that_differ_are_found_in_any_depth():
    """Equal settings are left out; a setting that a run lacks is a dash."""
    found = differences(
        [{"lr": 1e-3, "seed": 1, "kl": {"beta": 0.0}}, {"lr": 1e-3, "seed": 2, "kl": {"beta": 0.1}}, {}]
    )
    assert found == {"lr": ["0.001", "0.001", "–"], "seed": ["1", "2", "–"], "kl.beta": ["0", "0.1", "–"]}
    assert differences([{"a": 1, "b": [True, 2]}, {"a": 1.0, "b": [True, 2.0]}]) == {}


def test_settings_that_are_nearly_equal_differ():
    """Four digits of them are equal, or the words for them; the exact values are shown."""
    first = {"gamma": 0.99995, "mask": True, "stop": None, "lr": [0.1]}
    found = differences([first, {"gamma": 0.99996, "mask": "yes", "stop": [], "lr": [0.10000001]}, first])
    assert found == {
        "gamma": ["0.99995", "0.99996", "0.99995"],
        "lr": ["[0.1]", "[0.10000001]", "[0.1]"],
        "mask": ["True", "'yes'", "True"],
        "stop": ["None", "[]", "None"],
    }


def test_no_configuration_is_not_an_equal_one(texts):
    """A value that was not sent is not shown as equal."""
    assert "No run has sent its configuration." in texts(config_differences([compared("a", [1.0])]))
    assert "The configurations are equal." in texts(config_differences([compared("a", [1.0], config={"lr": 1})]))


def test_settings_of_one_run_alone_are_folded(texts):
    """Beside a run of another trainer, what both have and differs is the first to read."""

    def table(first, second):
        return config_differences([compared("a", [1.0], config=first), compared("b", [1.0], config=second)])

    title, shared, alone = table({"lr": 1, "kl": 0}, {"lr": 2, "top_p": 1, "seed": 3}).children
    assert texts([title, shared]) == ["Configuration: what differs", "setting", "a", "b", "lr", "1", "2"]
    assert texts(alone)[0] == "3 settings of one run alone"
    assert texts(alone)[4:] == ["kl", "0", "–", "seed", "–", "3", "top_p", "–", "1"]
    assert texts(table({"lr": 1}, {"lr": 1, "kl": 0}).children)[1:3] == [
        "Nothing differs in the settings that two or more runs have.",
        "1 setting of one run alone",
    ]


def test_the_outcomes_name_first_warning_and_first_critical_alert(texts):
    """The step is the one since which the alert had that severity."""
    alerts = {
        "a": [
            {"severity": "warning", "severity_step": 6, "warned_step": 6},
            {"severity": "critical", "severity_step": 9, "warned_step": 5},
            {"severity": "info", "severity_step": 1, "warned_step": None},
        ]
    }
    found = texts(outcomes([compared("a", [1.0, 3.0, 2.0], phases=DYING)], alerts))
    assert [cell for cell in found if cell.startswith("step ")] == ["step 5", "step 9", "step 2", "step 3"]
    assert {"3", "2"} <= set(found)
    # A run that collapsed at once has accelerated at no step, although its collapse is the origin of that axis.
    sudden = texts(outcomes([compared("a", [1.0], phases=[DYING[0], DYING[2]])], {}))
    assert sudden[-2:] == ["–", "step 3"]


@pytest.mark.parametrize("align", ["step", "time", "share"])
def test_a_run_that_went_back_is_compared_as_far_as_it_is_now(start_collector, texts, align):
    """It collapsed at step 40 and went back to 20: what lies beyond its newest step is neither new nor its length."""
    live = start_collector()
    rows = [{"step": s, "time": 1e6 + s, "scalars": {"reward/mean": 0.5 if s < 30 else 0.0}} for s in range(41)]
    run_id = live.run(run="r", records=rows)
    again = [{"step": s, "time": 2e6 + s, "scalars": {"reward/mean": 0.75}} for s in range(20, 26)]
    live.send(run="r", attempt=2, records=again)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 25)
    choice = ComparisonChoice([run_id], ["reward/mean"], align, False, False, 0.0, None)
    found = asyncio.run(read_comparison(live.url, choice))
    (line,) = overlay_figure("reward/mean", found.runs, **OPTIONS | {"align": align})["data"]
    assert list(line["x"]) == sorted(line["x"])
    assert (len(line["x"]), line["y"][-1]) == (26, 0.75)
    cells = texts(outcomes(found.runs, {}))
    assert cells.count("0.75") == 2  # the best reward and the newest one


def test_the_first_warning_is_that_of_an_alert_which_became_critical_later(start_collector, texts):
    """The alert keeps the step of its newest severity, and that at which it was a warning."""
    live = start_collector()
    losses = [1 + step % 7 / 100 if step < 60 else 500 if step < 75 else 1e9 for step in range(90)]
    run_id = live.run(run="r", records=[{"step": s, "scalars": {"loss/policy": loss}} for s, loss in enumerate(losses)])
    (alert,) = eventually(lambda: live.get(f"/runs/{run_id}/alerts")["items"])
    assert (alert["opened_step"], alert["severity_step"], alert["severity"]) == (60, 75, "critical")
    choice = ComparisonChoice([run_id], ["reward/mean"], "step", False, False, 0.0, None)
    found = asyncio.run(read_comparison(live.url, choice))
    cells = texts(outcomes(found.runs, found.alerts))
    assert [cell for cell in cells if cell.startswith("step ")][:2] == ["step 60", "step 75"]
