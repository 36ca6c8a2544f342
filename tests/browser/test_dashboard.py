"""The dashboard in a real browser on a real collector: empty page, fleet, run page, steps that arrive."""

import subprocess
import sys
from pathlib import Path

import pytest
import urllib3
from playwright.sync_api import expect

from tests.browser.stillness import check_stillness
from tests.live import eventually

STEPS_IN_FIGURE = """() => {
    const graph = document.querySelector('#run-figure .js-plotly-plot');
    const line = graph && graph.data && graph.data.find((trace) => trace.meta.signal === 'reward/mean');
    return line ? line.x : [];
}"""
HAS_STEP = f"(step) => ({STEPS_IN_FIGURE})().includes(step)"


def steps(first, last, **scalars):
    return [
        {"step": step, "scalars": {"reward/mean": 0.2 + 0.001 * step, "grad/norm": 0.5} | scalars}
        for step in range(first, last)
    ]


def open_run(collector, visit, run_id, step):
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    visit.page.wait_for_function(HAS_STEP, arg=step)


def test_the_first_run_fills_the_empty_page_by_itself(collector, visit):
    """The empty page shows how to connect to this very address, and gives way to the first run without a reload."""
    visit.page.goto(collector.url)
    lines = visit.page.locator("pre:visible")
    expect(lines).to_contain_text(f'trainer_hooks.connect("{collector.url}", run="my-run")')
    visit.page.get_by_text("TRL", exact=True).click()
    expect(lines).to_contain_text(f'VitalsCallback(url="{collector.url}")')
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    run_id = collector.run(run="first", records=steps(0, 3))
    visit.page.wait_for_url(f"{collector.url}/runs/{run_id}")
    expect(visit.page.locator("h1")).to_contain_text("first")


def test_the_theme_is_chosen_by_a_button_and_kept(collector, visit):
    """System, light, dark, and system again; a reload draws the chosen one."""
    visit.page.emulate_media(color_scheme="light")
    visit.page.goto(collector.url)
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = visit.page.evaluate(background)
    button = visit.page.locator("#theme")
    button.click()
    button.click()
    dark = visit.page.evaluate(background)
    assert dark != light
    visit.page.reload()
    assert visit.page.evaluate(background) == dark
    visit.page.emulate_media(color_scheme="dark")
    button.click()
    assert visit.page.evaluate(background) == dark
    button.click()
    assert visit.page.evaluate(background) == light


def test_the_first_view_gives_way_to_the_page(collector, visit, run_name):
    """The server's drawing is gone as soon as the chart answers the mouse."""
    run_id = collector.run(
        run=run_name, records=[{"step": step, "scalars": {"reward/mean": 0.1 * step}} for step in range(20)]
    )
    for path, drawn in (("/", ".fleet-row"), (f"/runs/{run_id}", "#run-figure .scatterlayer")):
        visit.page.goto(collector.url + path)
        expect(visit.page.locator(drawn).first).to_be_visible()
        expect(visit.page.locator("#first-view")).to_have_count(0)


def test_a_page_at_rest_moves_nothing(collector, visit):
    """The mark of the live state beats once, and not at all for somebody who wants less motion."""
    visit.page.goto(collector.url)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    ends = visit.page.evaluate(
        "document.getAnimations().map((moved) => String(moved.effect.getComputedTiming().endTime))"
    )
    assert "Infinity" not in ends
    visit.page.emulate_media(reduced_motion="reduce")
    assert visit.page.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("query", ["", "?smoothing=0.9"], ids=["plain", "smoothed"])
def test_nothing_moves_when_the_figure_is_drawn(collector, visit, query):
    """The panels below have their places before the library of charts is loaded, also where no first view is drawn."""
    run_id = collector.run(run="first", records=steps(0, 30))
    check_stillness(visit.page, f"{collector.url}/runs/{run_id}{query}", below="#workspace", chart="#run-figure")


def test_an_empty_dashboard_plays_a_recorded_collapse(start_collector, visit):
    """The button plays the sample, which opens by itself, grows, and ends in a collapse with its alerts."""
    collector = start_collector(dashboard="dashboard.app:attach", sample_batch_seconds=0.05)
    visit.page.goto(collector.url)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    visit.page.get_by_role("button", name="Show me a recorded collapse").click()
    visit.page.wait_for_url(f"{collector.url}/runs/*")
    expect(visit.page.locator("h1")).to_contain_text("recorded collapse")
    run_id = visit.page.url.rpartition("/")[2]
    eventually(lambda: collector.get(f"/runs/{run_id}")["status"] == "finished")
    expect(visit.page.locator(".alert[data-severity=critical]").first).to_be_visible(timeout=120_000)


def test_runs_are_chosen_and_opened_by_keys(collector, visit):
    """A slash goes to the search field, where letters are letters; j and k choose, Enter opens, ? lists the keys."""
    for name in ("one", "two"):
        collector.run(run=name, records=steps(0, 3))
    visit.page.goto(collector.url)
    expect(visit.page.locator(".fleet-row")).to_have_count(2)
    visit.page.keyboard.press("?")
    expect(visit.page.locator("#keys")).to_be_visible()
    visit.page.keyboard.press("Escape")
    expect(visit.page.locator("#keys")).to_be_hidden()
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("j?")
    expect(visit.page.get_by_placeholder("Find a run")).to_have_value("j?")
    expect(visit.page.get_by_text("No run matches.")).to_be_visible()
    visit.page.get_by_placeholder("Find a run").fill("")
    expect(visit.page.locator(".fleet-row:visible")).to_have_count(2)  # keys choose among the visible rows only
    visit.page.keyboard.press("Escape")
    visit.page.keyboard.press("j")
    visit.page.keyboard.press("j")
    expect(visit.page.locator(".fleet-row").nth(1)).to_be_focused()
    visit.page.keyboard.press("k")
    expect(visit.page.locator(".fleet-row").nth(0)).to_be_focused()
    name = visit.page.locator(".fleet-row .name").nth(0).inner_text()
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("h1")).to_contain_text(name)
    visit.page.keyboard.press("g")
    expect(visit.page.locator(".fleet-row")).to_have_count(2)


def test_the_tab_shows_the_most_severe_firing_alert(collector, visit):
    """Its title and its icon, on the fleet and on the run; a page without one has neither."""
    visit.page.goto(collector.url)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    calm = collector.run(run="calm", records=steps(0, 20))
    visit.page.wait_for_function("() => document.title === 'calm · rlvitals'")
    collector.run(run="dead", records=[*steps(0, 20), *steps(20, 24, **{"grad/norm": "NaN"})])
    visit.page.goto(collector.url)
    visit.page.wait_for_function("() => document.title === '▲ Fleet · rlvitals'")
    assert visit.page.locator("link[rel=icon]").get_attribute("href") == "/assets/favicon-critical.svg"
    visit.page.get_by_text("dead").click()
    visit.page.wait_for_function("() => document.title === '▲ dead · rlvitals'")
    visit.page.goto(f"{collector.url}/runs/{calm}")
    visit.page.wait_for_function("() => document.title === 'calm · rlvitals'")
    assert visit.page.locator("link[rel=icon]").get_attribute("href") == "/assets/favicon.svg"


def test_a_run_is_found_opened_and_watched(collector, visit):
    """The run is opened from the fleet; then a step posted by hand appears in header and figure without a reload."""
    run_id = collector.run(run="watched", project="tests", records=steps(0, 20))
    collector.run(run="other", project="tests", records=steps(0, 5))
    visit.page.goto(collector.url)
    visit.page.get_by_placeholder("Find a run").fill("watch")
    expect(visit.page.locator(".fleet-row:visible")).to_have_count(1)
    visit.page.get_by_text("watched").click()
    visit.page.wait_for_function(HAS_STEP, arg=19)
    assert visit.page.url.endswith(f"/runs/{run_id}")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    visit.page.evaluate("window.wasNotReloaded = true")

    collector.run(run="watched", project="tests", records=steps(20, 21, **{"reward/mean": 0.875}))

    visit.page.wait_for_function(HAS_STEP, arg=20)
    expect(visit.page.locator("#run-header [data-signal='step']")).to_have_text("20")
    expect(visit.page.locator("#run-header [data-signal='reward/mean']")).to_have_text("0.875")
    assert visit.page.evaluate("window.wasNotReloaded")
    assert visit.page.title() == "watched · rlvitals"


def test_what_a_trainer_did_about_an_alert_appears_with_its_reason(collector, visit):
    """An action posted by hand is there without a reload; of many, the newest are; a run without any shows none."""
    run_id = collector.run(run="acted", records=steps(0, 20))
    open_run(collector, visit, run_id, 19)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    aside = visit.page.locator("#run-alerts")
    expect(aside).not_to_contain_text("Actions")
    report = {
        "action": "stop",
        "alert_id": "a1",
        "outcome": "taken",
        "reason": "critical drift, open since step 3: it falls",
    }
    refused = report | {"action": "checkpoint", "outcome": "refused", "detail": "only 1 of 2 ranks heard"}

    collector.run(run="acted", records=[step | {"actions": [report]} for step in steps(20, 21)])
    expect(aside.locator(".action")).to_have_count(1)
    expect(aside.locator(".action")).to_contain_text("Stopped")
    expect(aside.get_by_role("link", name=report["reason"])).to_have_attribute("href", f"/runs/{run_id}/alerts/a1")

    collector.run(run="acted", records=[step | {"actions": [refused]} for step in steps(21, 27)])
    expect(aside.locator(".action:visible")).to_have_count(3)
    expect(aside.locator(".action").first).to_contain_text("only 1 of 2 ranks heard")
    aside.get_by_text("4 earlier").click()
    expect(aside.locator(".action:visible")).to_have_count(7)
    for width, height in ((1440, 900), (390, 844)):
        visit.page.set_viewport_size({"width": width, "height": height})
        eventually(lambda: visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_an_open_page_asks_the_server_for_no_old_point_again(collector, visit):
    """The browser sends no request while ten steps are pushed."""
    run_id = collector.run(run="quiet", records=steps(0, 30))
    open_run(collector, visit, run_id, 29)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    sent, is_answered = [], "() => !window.rlvitals.requests.isAsking()"
    visit.page.wait_for_function(is_answered)  # the page may still ask for the rest of itself
    visit.page.on("request", lambda request: sent.append(request.url))
    for step in range(30, 40):
        collector.run(run="quiet", records=steps(step, step + 1))
    visit.page.wait_for_function(HAS_STEP, arg=39)
    visit.page.wait_for_function(is_answered)
    phases = collector.get(f"/runs/{run_id}/phases")["items"]
    began = [span["phase"] for span in phases if span["from_step"] >= 30]
    assert len(sent) == len(began), (sent, phases)


def test_zoom_outlives_new_steps_and_a_figure_drawn_anew(collector, visit):
    """A dragged range of steps stays while steps arrive, and when a newly observed signal redraws the page."""
    run_id = collector.run(run="zoomed", records=steps(0, 60))
    open_run(collector, visit, run_id, 59)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    box = visit.page.locator("#run-figure .nsewdrag").last.bounding_box()
    visit.page.mouse.move(box["x"] + 200, box["y"] + 60)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + 500, box["y"] + 60, steps=4)
    visit.page.mouse.up()
    in_view = "() => document.querySelector('#run-figure .js-plotly-plot')._fullLayout.xaxis.range"
    visit.page.wait_for_function(f"() => ({in_view})()[0] > 5")
    zoomed = visit.page.evaluate(in_view)

    collector.run(run="zoomed", records=steps(60, 61, **{"entropy/mean": 0.4}))

    visit.page.wait_for_function(
        "() => document.querySelector('#run-figure .js-plotly-plot').data.some((t) => t.meta.signal === 'entropy/mean')"
    )
    visit.page.wait_for_function(HAS_STEP, arg=60)
    assert visit.page.evaluate(in_view) == pytest.approx(zoomed)


def test_a_zoomed_figure_takes_an_axis_that_it_did_not_have(collector, visit):
    """The server draws a signal that was observed after the zoom; its axis has no range that could be kept."""
    run_id = collector.run(run="widened", records=steps(0, 60))
    open_run(collector, visit, run_id, 59)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    zoom = "{'xaxis.range': [10, 20]}"
    visit.page.evaluate(f"() => void Plotly.relayout(document.querySelector('#run-figure .js-plotly-plot'), {zoom})")
    visit.page.wait_for_function("() => document.querySelector('#run-figure .js-plotly-plot').rlvitalsZoom")
    kept = visit.page.evaluate(
        """() => {
            const graph = document.querySelector('#run-figure .js-plotly-plot');
            const layout = { ...graph.layout, yaxis99: { anchor: "x", domain: [0, 0.1] } };
            const added = { x: [1, 2], y: [3, 4], yaxis: "y99", meta: {} };
            const figure = { data: [...graph.data, added], layout };
            window.rlvitals.figure.redraw({ figure, live: { max_points: 800 } });
            return [graph._fullLayout.xaxis.range, graph._fullLayout.yaxis99.range.length];
        }"""
    )
    assert kept == [[10, 20], 2]


def test_a_zoom_by_a_call_is_kept_and_does_not_freeze_the_page(collector, visit):
    """Plotly reports such a zoom in another form, and the draw before the zoom; a double click ends it."""
    run_id = collector.run(run="called", records=steps(0, 60))
    open_run(collector, visit, run_id, 59)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    in_view = "() => document.querySelector('#run-figure .js-plotly-plot')._fullLayout.xaxis.range"
    visit.page.evaluate(
        """() => void Plotly.relayout(
            document.querySelector('#run-figure .js-plotly-plot'), {'xaxis.range': [10, 20], width: 900})"""
    )
    visit.page.wait_for_function(f"() => ({in_view})()[0] === 10")
    collector.run(run="called", records=steps(60, 61))
    visit.page.wait_for_function(HAS_STEP, arg=60)
    assert visit.page.evaluate(in_view) == [10, 20]
    box = visit.page.locator("#run-figure .nsewdrag").last.bounding_box()
    visit.page.mouse.dblclick(box["x"] + 200, box["y"] + 60)
    visit.page.wait_for_function(f"() => ({in_view})()[1] >= 60")


def test_the_name_of_a_phase_is_drawn_in_the_middle_of_what_is_seen_of_it(collector, visit):
    """After each of several zooms, to the beginning, to the end and to all; a name without room is hidden."""
    run_id = collector.run(run="named", records=steps(0, 400))
    open_run(collector, visit, run_id, 399)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    visit.page.wait_for_function("() => document.querySelector('#run-figure .js-plotly-plot').rlvitalsWatched")
    for first, last in ((0, 8), (300, 380), (0, 399), (2, 4), (0, 200)):
        visit.page.evaluate(
            f"""() => void Plotly.relayout(
                document.querySelector('#run-figure .js-plotly-plot'), {{'xaxis.range': [{first}, {last}]}})"""
        )
        visit.page.wait_for_function(
            """([first, last]) => {
                const graph = document.querySelector('#run-figure .js-plotly-plot');
                const [from, to] = graph._fullLayout.xaxis.range;
                const bands = graph.layout.shapes.filter((shape) => /band$/.test(shape.name) && shape.opacity === 1);
                const plot = graph.querySelector('.nsewdrag').getBoundingClientRect();
                return from === first && to === last && graph.layout.annotations.every((label, at) => {
                    if (label.name !== 'band-label') return true;
                    const text = graph.querySelector(`.annotation[data-index="${at}"] .annotation-text`);
                    const before = graph.layout.annotations.slice(0, at).filter((one) => one.name === label.name);
                    const band = bands[before.length];
                    const [left, right] = [Math.max(band.x0, first), Math.min(band.x1, last)];
                    if ((right - left) / (last - first) < 0.02) return !text;
                    if (!text) return right - left < (last - first) / 3;
                    const box = text.getBoundingClientRect();
                    const middle = ((box.left + box.right) / 2 - plot.left) / plot.width;
                    return Math.abs(middle - ((left + right) / 2 - first) / (last - first)) < 0.02;
                });
            }""",
            arg=[first, last],
        )


def test_few_steps_have_a_tick_each_and_the_way_back_to_all_draws_no_more_than_a_glance_can_hold(collector, visit):
    """Between whole steps there is no tick, and the draw that leaves a narrow zoom does not put one at every step.

    A zoom to less than a step is one to the step.
    """
    run_id = collector.run(run="ticks", records=steps(0, 400))
    open_run(collector, visit, run_id, 399)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    visit.page.wait_for_function("() => document.querySelector('#run-figure .js-plotly-plot').rlvitalsWatched")
    zoom = """async (range) => {
        const graph = document.querySelector('#run-figure .js-plotly-plot');
        await Plotly.relayout(graph, {'xaxis.range': range});
        return graph.querySelectorAll('.xtick text').length;
    }"""
    visit.page.evaluate(zoom, [2.5, 5.2])
    expect(visit.page.locator("#run-figure .xtick text")).to_have_text(["3", "4", "5"])
    visit.page.evaluate(zoom, [3.3, 3.6])
    expect(visit.page.locator("#run-figure .xtick text")).to_have_text(["3", "4"])
    assert visit.page.evaluate(zoom, [0, 399]) < 40
    visit.page.wait_for_function(
        "() => document.querySelector('#run-figure .js-plotly-plot').layout.xaxis.tickvals === null"
    )
    expect(visit.page.locator("#run-figure .xtick text")).to_contain_text(["100", "200", "300"])


def test_a_log_axis_has_ticks_at_every_zoom(collector, visit):
    """From 0.1 to 3 at 1, 2 and 5 of each decade, of which 0.11 to 0.18 has none: there Plotly chooses."""
    norms = [0.1 + 0.002 * step if step < 50 else 0.06 * step for step in range(60)]
    records = [{"step": step, "scalars": {"reward/mean": 0.5, "grad/norm": norm}} for step, norm in enumerate(norms)]
    run_id = collector.run(run="log ticks", records=records)
    open_run(collector, visit, run_id, 59)
    visit.page.wait_for_function("() => document.querySelector('#run-figure .js-plotly-plot').rlvitalsWatched")
    labels = visit.page.locator("#run-figure .y3tick text")
    zoom = "(range) => window.rlvitals.panels.zoomToSteps(range)"
    expect(labels).to_have_text(["0.1", "0.2", "0.5", "1", "2"])
    visit.page.evaluate(zoom, [5, 40])
    expect(labels).to_have_text(["0.12", "0.14", "0.16", "0.18"])
    visit.page.evaluate(zoom, None)
    expect(labels).to_have_text(["0.1", "0.2", "0.5", "1", "2"])


def test_a_figure_that_goes_before_its_next_frame_is_no_error(collector, visit):
    """Drawn, and taken off the page in the same moment, as by a click on a link: nothing is left to trim."""
    run_id = collector.run(run="left", records=steps(0, 30))
    open_run(collector, visit, run_id, 29)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    visit.page.wait_for_function("() => document.querySelector('#run-figure .js-plotly-plot').rlvitalsWatched")
    visit.page.evaluate(
        """() => {
            const graph = document.querySelector('#run-figure .js-plotly-plot');
            graph.emit('plotly_afterplot');
            Plotly.purge(graph);
            return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        }"""
    )


def test_non_finite_steps_are_marked_alerted_and_named(collector, visit):
    """NaN pushed into an open page: a mark in the figure, its name in the header, an alert in the list."""
    run_id = collector.run(run="broken", records=steps(0, 30))
    open_run(collector, visit, run_id, 29)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    collector.run(run="broken", records=steps(30, 32, **{"grad/norm": "NaN"}))
    expect(visit.page.locator("#run-header [data-signal='grad/norm']")).to_have_text("NaN")
    expect(visit.page.locator("#run-alerts .alert").first).to_contain_text("is not finite")
    visit.page.wait_for_function(
        """() => document.querySelector('#run-figure .js-plotly-plot').data.some(
            (t) => t.meta.role === 'marks' && t.meta.signal === 'grad/norm' && t.hovertext.includes('NaN'))"""
    )
    collector.run(run="broken", records=steps(32, 33, **{"grad/norm": -12345.678}))
    visit.page.wait_for_function(
        """() => document.querySelector('#run-figure .js-plotly-plot').data.some(
            (t) => t.customdata?.includes(-12345.678))"""
    )
    with visit.page.expect_download() as download:
        visit.page.locator("[data-chart] [data-save=csv]").first.click()
    rows = Path(download.value.path()).read_text().splitlines()
    assert [row for row in rows if row.startswith('"grad/norm"')][-2:] == [
        '"grad/norm","31","NaN"',
        '"grad/norm","32","-12345.678"',
    ]
    visit.page.get_by_text("Evidence").first.click()
    expect(visit.page.locator(".evidence").first).to_be_visible()


def test_a_rewind_writes_old_steps_anew(collector, visit):
    """A second attempt goes back to step 20 of 40: its value replaces the old one in the open figure."""
    run_id = collector.run(run="rewound", records=steps(0, 40))
    open_run(collector, visit, run_id, 39)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    for step in (20, 21):
        collector.run(run="rewound", attempt=2, records=steps(step, step + 1, **{"reward/mean": 0.9}))
    value_at = """(step) => {
        const line = document.querySelector('#run-figure .js-plotly-plot').data.find(
            (trace) => trace.meta.role === 'line' && trace.meta.signal === 'reward/mean');
        return line.y[line.x.indexOf(step)] === 0.9;
    }"""
    for step in (20, 21):
        visit.page.wait_for_function(value_at, arg=step)
    expect(visit.page.locator(".facts")).to_contain_text("attempt2")


def test_what_was_not_observed_says_what_it_needs(collector, visit):
    """A run of two scalars shows the other panels with their need."""
    run_id = collector.run(run="plain", records=steps(0, 4))
    open_run(collector, visit, run_id, 3)
    expect(visit.page.locator("#run-figure")).to_contain_text("not observed - needs L3:")


SCREENS = ((360, 740), (1600, 1000), (3840, 2160))


@pytest.mark.parametrize("visit", SCREENS[:1], indirect=True, ids=["phone"])
def test_no_page_is_wider_than_its_screen(collector, visit):
    """Nothing scrolls sideways, on a phone, at a desk or on a wall; an open page follows the size of its window."""
    run_id = collector.run(run="a_rather_long_name_" * 10, records=steps(0, 30))
    collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{run_id}", json={"title": "short"})
    visit.page.goto(collector.url)
    expect(visit.page.locator(".fleet-row")).to_have_count(1)
    check_every_screen(visit)
    open_run(collector, visit, run_id, 29)
    check_every_screen(visit)


def check_every_screen(visit):
    for width, height in SCREENS:
        visit.page.set_viewport_size({"width": width, "height": height})
        eventually(lambda: visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))
    visit.page.set_viewport_size(dict(zip(("width", "height"), SCREENS[0], strict=True)))


def test_an_unknown_run_is_a_plain_message(collector, visit):
    """The page has a message and a link to the fleet, and no traceback."""
    visit.page.goto(f"{collector.url}/runs/0000000000000000")
    expect(visit.page.get_by_role("alert")).to_contain_text("No such run")
    expect(visit.page.locator("#live-state")).to_be_hidden()  # it would say "connecting" for good
    visit.page.get_by_role("alert").get_by_text("All runs").click()
    expect(visit.page.locator("pre:visible")).to_be_visible()
    expect(visit.page.locator("#live-state")).to_be_visible()


def test_the_dashboard_on_its_own_is_live_too(collector, visit, unused_port):
    """`python -m dashboard` beside the collector passes the stream through, and survives the collector's absence."""
    url = f"http://127.0.0.1:{unused_port}"
    run_id = collector.run(run="beside", records=steps(0, 10))
    environment = {
        "RLVITALS_API_URL": collector.url,
        "RLVITALS_DASHBOARD_PORT": str(unused_port),
        "PATH": "/usr/bin:/bin",
    }
    server = subprocess.Popen([sys.executable, "-m", "dashboard"], env=environment)
    try:
        retries = urllib3.Retry(total=8, backoff_factor=0.2)
        assert urllib3.PoolManager(retries=retries).request("GET", f"{url}/healthz").status == 200
        visit.page.goto(f"{url}/runs/{run_id}")
        visit.page.wait_for_function(HAS_STEP, arg=9)
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        collector.run(run="beside", records=steps(10, 11))
        visit.page.wait_for_function(HAS_STEP, arg=10)
        visit.page.goto("about:blank")  # a stream cut short would be a complaint
    finally:
        server.terminate()
        server.wait(timeout=60)
