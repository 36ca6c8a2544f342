"""The first view of a page: the elements that the server writes into the document before any script runs."""

import asyncio
import re
import threading
from functools import partial

import pytest
from dash import dcc, html
from fastapi.testclient import TestClient
from starlette.responses import HTMLResponse

from dashboard.components.small_elements import number, since, sparkline
from dashboard.first_view import document
from dashboard.html_text import html_text
from dashboard.page_delivery.first_answer import FIRST_VIEW, HEAD, FirstAnswer
from tests.live import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def patient_views(monkeypatch):
    """Let the server wait for a collector on a machine that is busy, where a page would have no first view."""
    monkeypatch.setattr(document, "LONGEST_SECONDS", PATIENCE_SECONDS)


def view_of(mounted, path):
    """Return the first view in the document of a page, or None."""
    document = mounted.pool.request("GET", mounted.url + path).data.decode()
    found = re.search(r"<template shadowrootmode=.closed.>(.*)</template>", document)
    return found and found[1]


def test_a_run_is_drawn_before_any_script_runs(mounted, run_name):
    """Its name, its newest values and its lines."""
    run_id = mounted.run(
        run=run_name, records=[{"step": step, "scalars": {"reward/mean": 0.1 * step}} for step in range(5)]
    )
    view = view_of(mounted, f"/runs/{run_id}")
    assert f"<h1>{run_name}</h1>" in view
    assert ">0.400</span>" in view
    assert view.count("still-line") == 1


def test_the_fleet_is_drawn_before_any_script_runs(mounted, run_name):
    """Each run with its link."""
    run_id = mounted.run(run=run_name, records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    assert f'href="/runs/{run_id}"' in view_of(mounted, "/")


def test_the_event_loop_answers_trainers_while_a_page_is_drawn(collector, run_name, monkeypatch):
    """A run with many alerts takes a tenth of a second, so pages are drawn in other threads."""
    run_id = collector.run(run=run_name, records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    threads = []

    def note_thread(draw, *drawn):
        threads.append(threading.current_thread())
        return draw(*drawn)

    for name in ("static_figure", "first_rows"):
        monkeypatch.setattr(document, name, partial(note_thread, getattr(document, name)))
    view = document.FirstView(collector.url, "style.css")
    for path in (f"/runs/{run_id}", "/"):
        assert asyncio.run(view(path, ""))
    assert len(threads) == 2
    assert threading.current_thread() not in threads


def test_a_name_is_text_in_the_first_view(mounted):
    """A trainer can give its run any name."""
    mounted.run(run="<img onerror=alert(1)>", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    view = view_of(mounted, "/")
    assert "<img" not in view
    assert "&lt;img onerror" in view


def test_a_fleet_of_archived_runs_has_no_first_view(mounted, run_name):
    """The table shows none of them, so it would never replace the view."""
    run_id = mounted.run(run=run_name, records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    mounted.pool.request("PATCH", f"{mounted.url}/api/v1/runs/{run_id}", json={"archived": True})
    assert view_of(mounted, "/") is None


@pytest.mark.parametrize("path", ["/", "/runs/9fb8fbff657cd163", "/settings", "/?group=project"])
def test_a_page_without_a_first_view_comes_at_once(mounted, path):
    """There is no run, or only the browser knows the view that is shown."""
    assert view_of(mounted, path) is None


def test_a_first_view_that_cannot_be_drawn_leaves_the_document_whole(caplog):
    """Its scripts draw the page; the log has the cause."""

    async def view(_path, _query):
        raise KeyError("phase")

    document = HTMLResponse(f"<html><head>{HEAD}</head><body>{FIRST_VIEW}<script></script></body></html>")
    answer = TestClient(FirstAnswer(document, view)).get("/")
    assert answer.text.endswith("<body><script></script></body></html>")
    assert "the first view of '/' failed" in caplog.text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0"),
        (1234567.0, "1,234,567"),
        (-0.5, "−0.500"),
        (12.345, "12.35"),
        (0.00012, "1.20e−4"),
        (2.5e8, "2.50e8"),
        (float("nan"), "NaN"),
        (float("-inf"), "−∞"),
    ],
)
def test_numbers_look_as_the_browser_draws_them(value, shown):
    """The numbers look like those of assets/draw_elements.js."""
    assert f">{shown}</span>" in html_text(number(value))


def test_elements_are_written_without_ids_and_controls():
    """Ids belong to the page that replaces the view."""
    page = html.Div(
        [html.B("a < b", id="one", title='">&'), dcc.Link("All", href="/"), dcc.Input(id="two"), since(None)],
        style={"maxWidth": "3px"},
        hidden=True,
    )
    assert html_text(page) == (
        '<div hidden style="max-width:3px"><b title="&quot;&gt;&amp;">a &lt; b</b><a href="/">All</a>'
        '<time class="since">–</time></div>'
    )


def test_a_sparkline_of_the_largest_numbers_stays_within_its_place():
    """Their distance is no number."""
    assert 'd="M1.0 2.0h0L50.0 22.0L99.0 12.0"' in html_text(sparkline([1.7e308, -1.7e308, 0.0], signal="reward/mean"))


def test_a_sparkline_has_a_gap_where_a_value_is_not_finite():
    """The pen is lifted."""
    assert html_text(sparkline([1.0, float("nan"), 2.0, 3.0], signal="reward/mean")).count("M") == 2


def test_a_value_between_two_gaps_is_a_dot_of_a_sparkline():
    """A move of the pen alone draws nothing."""
    drawn = html_text(sparkline([1.0, float("nan"), 2.0], signal="reward/mean"))
    assert 'd="M1.0 22.0h0M99.0 2.0h0"' in drawn


def test_only_components_can_be_written():
    """An object that is none is a mistake of the page."""
    with pytest.raises(TypeError, match="content must be a component"):
        html_text({"not": "a component"})


@pytest.mark.parametrize("values", [[5e-324] * 3, [5e-324, 1e-323], [1.7e308, -1.7e308, 0.0], [-1e308], ["NaN", 1.0]])
@pytest.mark.parametrize("first", [0, 2**53 - 2])
def test_a_run_of_the_smallest_and_largest_numbers_is_drawn_too(mounted, run_name, values, first):
    """Each line stands within the chart, for the document of the page ends with it."""
    records = [{"step": first + at, "scalars": {"reward/mean": value}} for at, value in enumerate(values)]
    view = view_of(mounted, f"/runs/{mounted.run(run=run_name, records=records)}")
    (line,) = re.findall(r'class="still-line" d="([^"]+)"', view)
    places = [float(place) for place in re.findall(r"[\d.]+", line)]
    assert places
    assert all(0 <= place <= 1000 for place in places)


def test_a_run_of_the_largest_step_alone_is_drawn_too(mounted, run_name):
    """No later step can be told from it."""
    records = [{"step": 2**53, "scalars": {"reward/mean": 0.5}}]
    assert "still-line" in view_of(mounted, f"/runs/{mounted.run(run=run_name, records=records)}")
