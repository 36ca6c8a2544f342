"""The workspace of a run in a real browser: every signal a panel, drawn when it comes into view."""

import csv
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

ENDS = f"{1_700_000_000_000},{1_700_000_000_000 + 60_000 * 299}"  # of 300 steps, in milliseconds
GRAPH = "document.querySelector('[data-panel=\"{signal}\"] .js-plotly-plot')"


ALL = [f"{group}/{name}" for group in ("alpha", "beta", "gamma") for name in "abcdefgh"]


def steps(first, last, names=("alpha/a", "alpha/b")):
    return [
        {"step": step, "time": 1.7e9 + 60 * step, "scalars": {name: float(step % 7) for name in names}}
        for step in range(first, last)
    ]


def with_reward(records):
    """Add a reward to records, which the vital signs show."""
    for record in records:
        record["scalars"]["reward/mean"] = 0.5
    return records


def open_workspace(collector, visit, run_id, query=""):
    visit.page.goto(f"{collector.url}/runs/{run_id}{query}")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    visit.page.locator(".workspace-bar").scroll_into_view_if_needed()


def is_drawn(visit, signal, condition="true"):
    graph = GRAPH.format(signal=signal)
    visit.page.wait_for_function(f"() => {{ const graph = {graph}; return graph && graph.data && {condition}; }}")


def test_every_signal_is_a_panel_and_those_out_of_view_are_not_read(collector, visit):
    """24 signals in three groups; the last is drawn once it is scrolled to."""
    run_id = collector.run(run="many", records=steps(0, 20, ALL))
    open_workspace(collector, visit, run_id)
    expect(visit.page.locator("[data-panel]")).to_have_count(24)
    expect(visit.page.locator("[data-panel-group] > summary")).to_have_text(["alpha8", "beta8", "gamma8"])
    is_drawn(visit, "alpha/a")
    assert visit.page.locator('[data-panel="gamma/h"] .js-plotly-plot').count() == 0
    visit.page.locator('[data-panel="gamma/h"]').scroll_into_view_if_needed()
    is_drawn(visit, "gamma/h")


def test_signals_that_are_not_stored_are_named_as_soon_as_they_are_lost(start_collector, visit):
    """The page names their number, the first such step and the remedy; a page that is open shows it too."""
    collector = start_collector(dashboard="dashboard.app:attach", max_signals=30)
    run_id = collector.run(run="full", records=steps(0, 5, ALL))
    open_workspace(collector, visit, run_id)
    said = visit.page.locator("#workspace-left-out")
    expect(said).to_be_hidden()
    collector.run(run="full", records=[{"step": 5, "scalars": {f"extra/{n}": 1.0 for n in range(10)}}])
    expect(said).to_contain_text("4 signals of a step are not stored, such as extra/6, since step 5: a run may have 30")
    expect(said).to_contain_text("raise RLVITALS_MAX_SIGNALS")


def test_two_tabs_of_one_browser_show_the_same_panels(collector, visit):
    """A panel that one tab pins or moves is pinned or moved in the other; neither tab undoes changes of the other."""
    run_id = collector.run(run="twice", project="p", records=steps(0, 5, ALL))
    open_workspace(collector, visit, run_id)
    one = visit.page
    with one.expect_popup() as opened:
        one.evaluate("window.open(window.location)")
    two = opened.value
    expect(two.locator("[data-panel]")).to_have_count(24)
    one.locator('[data-panel="beta/c"] [data-choice="pin"]').click()
    expect(two.locator(".is-pin")).to_have_attribute("data-panel", "beta/c")
    two.locator('[data-panel="beta/d"] [data-choice="pin"]').click()
    expect(one.locator(".is-pin")).to_have_count(2)
    one.locator('[data-panel="alpha/b"] [data-move="earlier"]').click()
    expect(two.locator('[data-panel-group="alpha"] [data-panel]').first).to_have_attribute("data-panel", "alpha/b")
    two.locator('[data-panel="alpha/d"] [data-move="earlier"]').click()
    for page in (one, two):
        names = page.locator('[data-panel-group="alpha"] [data-panel]')
        expect(names.nth(3)).to_have_attribute("data-panel", "alpha/c")
        assert [name.get_attribute("data-panel")[-1] for name in names.all()] == list("badcefgh")
    two.close()


def test_signals_are_found_by_a_regular_expression(collector, visit):
    """Groups without a match are gone, and so are they by an expression that cannot be read."""
    run_id = collector.run(run="found", records=steps(0, 5, ALL))
    open_workspace(collector, visit, run_id)
    search = visit.page.get_by_placeholder("Find signals")
    search.fill("^beta/[ab]$")
    expect(visit.page.locator("[data-panel]:visible")).to_have_count(2)
    expect(visit.page.locator("[data-panel-group]:visible")).to_have_count(1)
    expect(visit.page.get_by_text("No signal matches.")).to_be_hidden()
    search.fill("gamma/[")
    expect(visit.page.locator("[data-panel]:visible")).to_have_count(0)
    expect(visit.page.get_by_text("No signal matches.")).to_be_visible()


def test_a_smoothed_curve_lies_over_the_raw_values_and_grows_with_them(collector, visit):
    """The address sets the controls; a step that is pushed is the newest point of both curves."""
    run_id = collector.run(run="smooth", records=steps(0, 30))
    open_workspace(collector, visit, run_id, "?smoothing=0.9&y=log&signals=alpha")
    is_drawn(visit, "alpha/a", "graph.data.length === 3 && graph.layout.yaxis.type === 'log'")
    collector.run(run="smooth", records=steps(30, 31))
    is_drawn(visit, "alpha/a", "[0, 2].every((at) => graph.data[at].x.at(-1) === 30)")
    both = [{"step": 31, "signals": {"alpha/a": 0.25}}, {"step": 32, "signals": {"beta/a": 1}}]
    visit.page.evaluate("(steps) => window.rlvitals.panels.extend(steps)", both)
    number = visit.page.locator('[data-panel="alpha/a"] [data-number]')
    expect(number).to_have_attribute("data-number", "0.25")  # of the newest step that has the signal


def test_pushed_values_that_a_line_cannot_show_are_marked_and_what_lies_between_them_has_a_dot(collector, visit):
    """NaN and infinities interrupt the line; the value between two of them would be no line at all."""
    run_id = collector.run(run="interrupted", records=steps(0, 50))
    open_workspace(collector, visit, run_id)
    is_drawn(visit, "alpha/a")
    pushed = [{"step": 50 + at, "signals": {"alpha/a": value}} for at, value in enumerate(["NaN", 5, "Infinity"])]
    visit.page.evaluate("(steps) => window.rlvitals.panels.extend(steps)", pushed)
    is_drawn(visit, "alpha/a", "graph.data[1].text.join() === '✕,▲' && graph.data[1].y.join() === '0,5'")
    is_drawn(visit, "alpha/a", "graph.data[0].marker.size.slice(-3).join() === '0,4,0'")
    assert visit.page.evaluate(f"{GRAPH.format(signal='alpha/a')}.querySelectorAll('.textpoint').length") == 2
    for step, value, mode in ((50, "NaN", "lines"), (51, 5, "lines+markers"), (52, 6, "lines")):
        visit.page.evaluate(
            "(step) => window.rlvitals.panels.extend([step])", {"step": step, "signals": {"alpha/b": value}}
        )
        is_drawn(visit, "alpha/b", f"graph.data[0].x.at(-1) === {step} && graph.data[0].mode === '{mode}'")


def test_a_zoom_in_one_panel_is_the_zoom_of_all_and_reads_raw_values(collector, visit):
    """Of 3,000 steps a panel has at most 600 points; zoomed to a hundred, it has every one of them."""
    records = with_reward(steps(0, 3000))
    run_id = collector.run(run="zoomed", records=records)
    open_workspace(collector, visit, run_id)
    is_drawn(visit, "alpha/a", "graph.data[0].x.length <= 600")
    is_drawn(visit, "alpha/b")
    visit.page.evaluate(
        f"Plotly.relayout({GRAPH.format(signal='alpha/b')}, {{'xaxis.range[0]': 100, 'xaxis.range[1]': 200}})"
    )
    shown = "graph.data[0].x.filter((step) => step >= 100 && step <= 200).length === 101"
    is_drawn(visit, "alpha/a", f"graph._fullLayout.xaxis.range[0] === 100 && {shown}")
    visit.page.wait_for_function(
        "() => document.querySelector('#run-figure .js-plotly-plot')._fullLayout.xaxis.range[0] === 100"
    )


def test_the_vital_signs_are_smoothed_and_zoomed_with_the_panels(collector, visit):
    """The slider below them smooths them at full resolution; a pushed step is in both lines, also after a reload.

    The figure that the server sends for a zoom is drawn in its final form, and not a second time to fit its values.
    """
    records = [{"step": step, "scalars": {"reward/mean": 7.0 * (step % 7 == 0)}} for step in range(3000)]
    run_id = collector.run(run="noisy", records=records)
    page = visit.page
    page.goto(f"{collector.url}/runs/{run_id}")
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")

    def vitals(condition):
        page.wait_for_function(
            f"""() => {{
                const graph = document.querySelector('#run-figure .js-plotly-plot');
                const find = (role) => graph?.data?.find((trace) => trace.meta.role === role);
                const [line, average] = [find('line'), find('average')];
                return line && ({condition});
            }}"""
        )

    vitals("!average && line.x.length <= 1500")
    page.locator("#workspace-smoothing").get_by_role("slider").press("End")
    vitals("average && average.y.slice(50).every((y) => 0.8 < y && y < 1.2)")  # and not that of the extremes, 2
    page.evaluate(
        """() => {
            window.draws = [];
            const graph = document.querySelector('#run-figure .js-plotly-plot');
            for (const name of ['react', 'relayout']) {
                const draw = Plotly[name];
                Plotly[name] = (drawn, ...rest) => (drawn === graph && window.draws.push(name), draw(drawn, ...rest));
            }
        }"""
    )
    page.evaluate("window.rlvitals.panels.zoomToSteps([100, 200])")
    dense = "line.x.filter((step) => step >= 100 && step <= 200).length === 101"
    zoomed = f"graph._fullLayout.xaxis.range.join() === '100,200' && {dense}"
    vitals(zoomed)
    page.evaluate("() => new Promise((end) => requestAnimationFrame(() => requestAnimationFrame(end)))")
    assert page.evaluate("window.draws").count("react") == 1
    assert page.evaluate("window.draws.at(-1)") == "react"
    collector.run(run="noisy", records=[{"step": 3000, "scalars": {"reward/mean": 100.0}}])
    vitals(f"[line, average].every((trace) => trace.x.at(-1) === 3000) && average.y.at(-1) < 50 && {zoomed}")
    page.reload()
    vitals(f"average && {zoomed}")


def test_the_axis_may_be_the_wall_time(collector, visit):
    """Steps are placed at the time at which they were recorded, also those that are pushed to the page."""
    run_id = collector.run(run="timed", records=steps(0, 30))
    open_workspace(collector, visit, run_id)
    visit.page.locator("#workspace-axis").get_by_text("time").click()
    is_drawn(visit, "alpha/a", "graph._fullLayout.xaxis.type === 'date' && graph.data[0].x[1] === 1.7e12 + 60000")
    assert "x=time" in visit.page.url
    collector.run(run="timed", records=steps(30, 31))
    is_drawn(visit, "alpha/a", "graph.data[0].x.length > 30")
    assert visit.page.evaluate(f"{GRAPH.format(signal='alpha/a')}.data[0].x.at(-1)") == 1.7e12 + 60000 * 30
    # A dashboard of its own may be newer than its collector, whose events have no time.
    visit.page.evaluate("rlvitals.panels.extend([{ step: 31, signals: { 'alpha/a': 3 } }])")
    is_drawn(visit, "alpha/a", "graph.data[0].x.length === 32 && Math.abs(graph.data[0].x.at(-1) - Date.now()) < 60000")


def test_a_browser_that_keeps_no_storage_shows_the_fleet_and_the_panels(collector, visit):
    """A reader has forbidden sites to keep data, so that reading the storage raises."""
    visit.page.add_init_script(
        """for (const name of ["localStorage", "sessionStorage"])
            Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });"""
    )
    run_id = collector.run(run="unkept", records=steps(0, 30))
    visit.page.goto(collector.url)
    expect(visit.page.locator(".fleet-row .name").filter(has_text="unkept")).to_be_visible()
    open_workspace(collector, visit, run_id)
    is_drawn(visit, "alpha/a")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_a_zoom_by_time_is_that_of_the_readers_clock(collector, visit, zone):
    """The panels and the address have the interval that was dragged over; a day alone is midnight in the time zone.

    An interval in the hour that New York's clocks showed twice contains both hours.
    """
    run_id = collector.run(run="elsewhere", records=steps(0, 30))
    session = visit.page.context.new_cdp_session(visit.page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": zone})
    visit.page.goto(f"{collector.url}/runs/{run_id}?x=time")
    visit.page.locator(".workspace-bar").scroll_into_view_if_needed()
    is_drawn(visit, "alpha/a")
    is_drawn(visit, "alpha/b")
    drag = """([name, from, to]) => {
        const graph = document.querySelector(`[data-panel="${name}"] .js-plotly-plot`);
        Plotly.relayout(graph, { "xaxis.range[0]": from, "xaxis.range[1]": to });
    }"""
    fifth, tenth = (datetime.fromtimestamp(1.7e9 + 60 * step, ZoneInfo(zone)) for step in (5, 10))
    visit.page.evaluate(drag, ["alpha/a", *(end.strftime("%Y-%m-%d %H:%M:%S") for end in (fifth, tenth))])
    ends = (
        "graph._fullLayout.xaxis.range.map((end) => new Date(end.length > 10 ? end : `${end} 00:00`).getTime()).join()"
    )
    is_drawn(visit, "alpha/b", f"{ends} === '{1.7e12 + 300_000:.0f},{1.7e12 + 600_000:.0f}'")
    assert "zoom=1700000300%2C1700000600" in visit.page.url
    visit.page.evaluate(drag, ["alpha/a", *(f"{fifth:%Y-%m-%d %H:%M:%S}.{part}" for part in (25, 75))])
    visit.page.wait_for_url("**zoom=1700000300.25%2C1700000300.75*")
    midnight = datetime(2023, 11, 14, tzinfo=ZoneInfo(zone)).timestamp()
    visit.page.evaluate(drag, ["alpha/a", "2023-11-14", "2023-11-16"])
    is_drawn(visit, "alpha/b", f"{ends} === '{1000 * midnight:.0f},{1000 * (midnight + 172_800):.0f}'")
    visit.page.evaluate(drag, ["alpha/a", "2023-11-05 01:10:00", "2023-11-05 01:50:00"])
    begin, end = (
        datetime(2023, 11, 5, 1, minute, fold=fold, tzinfo=ZoneInfo(zone)).timestamp()
        for minute, fold in ((10, 0), (50, 1))
    )
    visit.page.wait_for_url(f"**zoom={begin:.0f}%2C{end:.0f}*")


def test_a_zoom_by_steps_is_none_of_an_axis_of_times(collector, visit):
    """Another axis shows everything; the vital signs, which are drawn by steps, then have a zoom of their own."""
    records = with_reward(steps(0, 300))
    run_id = collector.run(run="axes", records=records)
    open_workspace(collector, visit, run_id)
    is_drawn(visit, "alpha/a")
    vitals = "document.querySelector('#run-figure .js-plotly-plot')"
    zoom = f"Plotly.relayout({vitals}, {{'xaxis.range[0]': %s, 'xaxis.range[1]': %s}})"
    visit.page.evaluate(zoom % (100, 200))
    is_drawn(visit, "alpha/a", "graph._fullLayout.xaxis.range.join() === '100,200'")
    visit.page.locator("#workspace-axis").get_by_text("time").click()
    everything = f"graph._fullLayout.xaxis.range.map((end) => new Date(end + 'Z').getTime()).join() === '{ENDS}'"
    is_drawn(visit, "alpha/a", everything)
    visit.page.wait_for_function(f"() => {vitals}._fullLayout.xaxis.range[1] > 290")
    assert "zoom" not in visit.page.url
    visit.page.evaluate(zoom % (20, 40))
    visit.page.wait_for_function(f"() => {vitals}.rlvitalsZoom?.join() === '20,40'")
    visit.read_panels_again()
    is_drawn(visit, "alpha/a", everything)
    visit.page.locator("#workspace-axis").get_by_text("step", exact=True).click()
    is_drawn(visit, "alpha/a", "graph._fullLayout.xaxis.range.join() === '20,40'")
    visit.page.locator("#workspace-axis").get_by_text("time").click()
    other = collector.run(run="other", records=steps(0, 300))
    visit.page.evaluate(f"window.rlvitals.openAddress('/runs/{other}?zoom=50,60')")
    expect(visit.page.get_by_role("heading", level=1, name="other")).to_be_visible()
    visit.page.locator(".workspace-bar").scroll_into_view_if_needed()
    is_drawn(visit, "alpha/a", "graph._fullLayout.xaxis.range.join() === '50,60'")


def test_the_axis_may_be_the_tokens_where_the_trainer_logs_them(collector, visit):
    """TRL's count from the beginning is the place of each step, of pushed ones too; another run has no such axis."""
    records = [{"step": step, "scalars": {"alpha/a": 1.0, "trl/num_tokens": 500.0 * step}} for step in range(1, 31)]
    run_id = collector.run(run="counted", records=records[:-1])
    open_workspace(collector, visit, run_id, "?signals=alpha")
    visit.page.locator("#workspace-axis").get_by_text("tokens").click()
    is_drawn(visit, "alpha/a", "graph.data[0].x[1] === 1000 && graph.data[0].x.length === 29")
    collector.run(run="counted", records=records[-1:])
    is_drawn(visit, "alpha/a", "graph.data[0].x.at(-1) === 15000")
    assert "x=tokens" in visit.page.url
    other = collector.run(run="plain", records=steps(0, 3))
    open_workspace(collector, visit, other)
    expect(visit.page.locator("#workspace-axis")).not_to_contain_text("tokens")


def test_steps_may_have_a_logarithmic_axis_that_shares_its_zoom(collector, visit):
    """A zoom to the steps 10 to 100 in a panel is that of the vital signs, whose axis is linear."""
    records = with_reward(steps(0, 200))
    run_id = collector.run(run="early", records=records)
    open_workspace(collector, visit, run_id, "?x=log")
    is_drawn(visit, "alpha/a", "graph._fullLayout.xaxis.type === 'log'")
    visit.page.evaluate(
        f"Plotly.relayout({GRAPH.format(signal='alpha/a')}, {{'xaxis.range[0]': 1, 'xaxis.range[1]': 2}})"
    )
    visit.page.wait_for_function(
        "() => document.querySelector('#run-figure .js-plotly-plot')._fullLayout.xaxis.range.join() === '10,100'"
    )
    is_drawn(visit, "alpha/b", "graph._fullLayout.xaxis.range.join() === '1,2'")
    visit.page.wait_for_url("**zoom=10%2C100**")


def test_outliers_are_left_out_by_choice(collector, visit):
    """The value axis ends near the other values, and the panel counts the points outside."""
    records = steps(0, 100)
    records[50]["scalars"]["alpha/a"] = 1e6
    run_id = collector.run(run="spike", records=records)
    open_workspace(collector, visit, run_id)
    is_drawn(visit, "alpha/a", "graph._fullLayout.yaxis.range[1] > 1e5")
    visit.page.locator("#workspace-outliers").get_by_text("no outliers").click()
    is_drawn(visit, "alpha/a", "graph._fullLayout.yaxis.range[1] < 10")
    expect(visit.page.locator('[data-panel="alpha/a"] .annotation-text')).to_have_text("1 of 100 drawn points outside")
    assert "outliers=hidden" in visit.page.url


def test_outliers_are_computed_anew_where_pushed_values_are_left_out(collector, visit):
    """A value that drifts stays in view, and the panel counts the points that are outside then."""
    records = steps(0, 400)
    for record in records[200:]:
        record["scalars"]["alpha/a"] += 100.0
    records[50]["scalars"]["alpha/a"] = 1e6
    run_id = collector.run(run="drift", records=records[:200])
    open_workspace(collector, visit, run_id, "?outliers=hidden")
    is_drawn(visit, "alpha/a", "graph._fullLayout.yaxis.range[1] < 10")
    collector.run(run="drift", records=records[200:])
    is_drawn(visit, "alpha/a", "graph._fullLayout.yaxis.range[1] > 105")
    expect(visit.page.locator('[data-panel="alpha/a"] .annotation-text')).to_have_text("1 of 400 drawn points outside")


def test_no_step_is_left_out_of_what_many_steps_at_once_have_drawn(collector, visit):
    """More steps at once than the page remembers are drawn whole, and so is a panel that was out of view meanwhile."""
    records = steps(0, 1, ALL) + steps(1, 1700, ["alpha/a"])
    for record in records:
        record["scalars"]["reward/mean"] = 0.5 + 0.01 * (record["step"] % 5)
    run_id = collector.run(run="burst", records=records[:600])
    open_workspace(collector, visit, run_id)
    is_drawn(visit, "alpha/a")
    visit.page.locator('[data-panel="gamma/h"]').scroll_into_view_if_needed()
    is_drawn(visit, "gamma/h")
    vitals = "document.querySelector('#run-figure .js-plotly-plot')"
    line = "graph.data.find((trace) => trace.meta.role === 'line')"
    is_whole = "line.x.at(-1) === %d && line.x.every((x, at) => at === 0 || x - line.x[at - 1] < 9)"
    whole_vitals = f"(() => {{ const graph = {vitals}, line = {line}; return {is_whole}; }})()"
    for end in (900, 1200):
        collector.run(run="burst", records=records[end - 300 : end])
        visit.page.wait_for_function(f"() => {whole_vitals % (end - 1)}")
    assert visit.page.evaluate(f"{GRAPH.format(signal='alpha/a')}.data[0].x.at(-1)") == 599
    visit.page.locator('[data-panel="alpha/a"]').scroll_into_view_if_needed()
    is_drawn(visit, "alpha/a", f"((line) => {is_whole % 1199})({line})")
    collector.run(run="burst", records=records[1200:])
    visit.page.wait_for_function(f"() => {whole_vitals % 1699}")


def test_a_finger_scrolls_the_page_over_every_chart(collector, visit):
    """A swipe over the vital signs, a panel or a comparison zooms nothing."""
    records = with_reward(steps(0, 30))
    run_id = collector.run(run="touched", records=records)
    page = visit.page
    page.set_viewport_size({"width": 390, "height": 700})
    touch = page.context.new_cdp_session(page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})

    def swipe(place):
        page.wait_for_function(
            """(place) => {
                document.querySelector(place)?.scrollIntoView({ block: "center" });
                return document.querySelector(`${place} .nsewdrag`);
            }""",
            arg=place,
        )
        read = f"[document.querySelector('{place} .js-plotly-plot')._fullLayout.xaxis.range, window.location.search]"
        before, shown = page.evaluate("window.scrollY"), page.evaluate(read)
        box = page.locator(f"{place} .nsewdrag").last.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        touches = [[{"x": x + 3 * move, "y": y - 12 * move}] for move in range(13)]
        for kind, points in [("touchStart", touches[0]), *(("touchMove", at) for at in touches[1:]), ("touchEnd", [])]:
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.wait_for_function("(before) => window.scrollY > before + 20", arg=before)
        assert page.evaluate(read) == shown

    page.goto(f"{collector.url}/runs/{run_id}")
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    swipe("#run-figure")
    swipe('[data-panel="alpha/a"]')
    page.goto(f"{collector.url}/compare?run={run_id}&signal=reward/mean")
    swipe(".compare-chart")


def test_a_signal_is_saved_with_every_value(collector, visit):
    """Step, time and value of all 3,000 steps."""
    run_id = collector.run(run="saved", records=steps(0, 3000))
    open_workspace(collector, visit, run_id)
    with visit.page.expect_download() as download:
        visit.page.locator("[data-panel]").get_by_role("button", name="CSV").first.click()
    rows = list(csv.reader(Path(download.value.path()).read_text().splitlines()))
    assert rows[0] == ["step", "time", "alpha/a"]
    assert rows[-1] == ["2999", str(1.7e9 + 60 * 2999), "3.0"]
    assert len(rows) == 3001


def test_no_name_is_a_formula_in_a_file_for_a_spreadsheet(collector, visit):
    """A sender of runs must not reach the computer of a person who opens the file; numbers and names stay whole."""
    records = [{"step": step, "scalars": {"=own/1": -0.5, "reward/mean": -0.5}} for step in range(20)]
    run_id = collector.run(run="=1<b>+1", records=records)

    def saved(button):
        with visit.page.expect_download() as download:
            button.click()
        return list(csv.reader(Path(download.value.path()).read_text().splitlines()))

    open_workspace(collector, visit, run_id)
    is_drawn(visit, "=own/1")
    rows = saved(visit.page.locator('[data-panel="=own/1"]').get_by_role("button", name="CSV"))
    assert (rows[0][2], rows[1][2]) == ("'=own/1", "-0.5")
    visit.page.goto(f"{collector.url}/compare?run={run_id}&signal=reward/mean")
    visit.page.wait_for_function("() => document.querySelector('.compare-chart .js-plotly-plot')?.data?.length")
    rows = saved(visit.page.locator(".compare-card, .card").locator("[data-save=csv]").first)
    assert (rows[0], rows[1][0], rows[1][2]) == (["line", "step", "y"], "'=1<b>+1", "-0.5")
    visit.page.goto(f"{collector.url}/compare?run={run_id}&signal=reward/mean&smoothing=0.9&x=share")
    visit.page.wait_for_function("() => document.querySelector('.compare-chart .js-plotly-plot')?.data?.length")
    rows = saved(visit.page.locator(".compare-card, .card").locator("[data-save=csv]").first)
    assert (rows[0][1], rows[1][0]) == ("share of the run", "'=1<b>+1 (smoothed)")


def test_a_chart_is_saved_as_svg_and_png_and_states_what_it_shows(collector, visit):
    """The file is a drawing of its type; a signal of docs/signals.md has its unit and its definition."""
    records = [{"step": step, "scalars": {"reward/mean": 0.5, "entropy/mean": 1.0}} for step in range(5)]
    records[2]["scalars"]["reward/mean"] = "NaN"
    run_id = collector.run(run="drawn", records=records)
    open_workspace(collector, visit, run_id)
    is_drawn(visit, "entropy/mean")
    panel = visit.page.locator('[data-panel="entropy/mean"]')
    expect(panel.locator("h3")).to_have_text("entropy/mean nats/token")
    expect(panel.locator(".definition")).to_have_text("mean token entropy, all responses")
    for name, begin in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with visit.page.expect_download() as download:
            panel.get_by_role("button", name=name).click()
        assert download.value.suggested_filename == f"entropy-mean.{name.lower()}"
        assert Path(download.value.path()).read_bytes().startswith(begin)
    with visit.page.expect_download() as download:
        visit.page.locator(".below-chart").get_by_role("button", name="CSV").click()
    rows = Path(download.value.path()).read_text().splitlines()
    assert rows[0] == 'line,"optimiser step",y'
    assert [row for row in rows if row.startswith('"reward/mean"')][2:] == [
        '"reward/mean","2","NaN"',
        '"reward/mean","3","0.5"',
        '"reward/mean","4","0.5"',
    ]
    assert not any("alert" in row for row in rows)


def test_a_panel_is_pinned_and_widened_and_the_browser_remembers_it(collector, visit):
    """The pinned panel is the first on the page, on the next visit too; other projects do not have it."""
    run_id = collector.run(run="pins", project="one", records=steps(0, 20, ["alpha/a", "beta/c"]))
    open_workspace(collector, visit, run_id)
    panel = visit.page.locator('[data-panel="beta/c"]')
    panel.scroll_into_view_if_needed()
    for name in ("Pin", "Wide"):
        panel.get_by_role("button", name=name).click()
    for _ in range(2):
        is_first = "Math.min(...[...document.querySelectorAll('[data-panel]')].map((each) => each.offsetTop))"
        expect(panel).to_have_class("panel card is-pin is-wide")
        assert visit.page.evaluate(f"document.querySelector('[data-panel=\"beta/c\"]').offsetTop === {is_first}")
        open_workspace(collector, visit, run_id)
    other = collector.run(run="pins", project="two", records=steps(0, 20, ["alpha/a", "beta/c"]))
    open_workspace(collector, visit, other)
    expect(panel).to_have_class("panel card")


def test_panels_are_moved_and_made_taller_and_the_browser_remembers_it(collector, visit):
    """Panels move by buttons and by dragging a name, and grow by the corner of a chart and by the keys + and -."""
    run_id = collector.run(run="order", records=steps(0, 20, ALL))
    open_workspace(collector, visit, run_id, "?signals=^alpha/[a-d]$")
    names = visit.page.locator('[data-panel-group="alpha"] [data-panel]:visible h3')
    is_drawn(visit, "alpha/a")
    visit.page.locator('[data-panel="alpha/b"]').get_by_role("button", name="Move alpha/b earlier").click()
    expect(names).to_have_text(["alpha/b", "alpha/a", "alpha/c", "alpha/d"])
    target = visit.page.locator('[data-panel="alpha/d"] .definition')
    visit.page.locator('[data-panel="alpha/b"] h3').drag_to(target, source_position={"x": 8, "y": 8})
    expect(names).to_have_text(["alpha/a", "alpha/c", "alpha/d", "alpha/b"])
    body = visit.page.locator('[data-panel="alpha/a"] .panel-chart')
    box = body.bounding_box()
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    visit.page.mouse.move(right - 4, bottom - 4)
    visit.page.mouse.down()
    visit.page.mouse.move(right - 4, bottom + 96, steps=5)
    visit.page.mouse.up()
    is_drawn(visit, "alpha/a", f"graph._fullLayout.height > {box['height'] + 60}")
    open_workspace(collector, visit, run_id, "?signals=^alpha/[a-d]$")
    expect(names).to_have_text(["alpha/a", "alpha/c", "alpha/d", "alpha/b"])
    is_drawn(visit, "alpha/a", f"graph._fullLayout.height > {box['height'] + 60}")
    visit.page.locator('[data-panel="alpha/a"] button').first.focus()
    visit.page.keyboard.press("-")
    visit.page.keyboard.press("-")
    is_drawn(visit, "alpha/a", f"graph._fullLayout.height < {box['height'] + 60}")


def test_the_cursor_is_one_over_all_panels(collector, visit):
    """The place under the pointer in one panel is shown in the others."""
    run_id = collector.run(run="cursor", records=steps(0, 20))
    open_workspace(collector, visit, run_id)
    is_drawn(visit, "alpha/a")
    is_drawn(visit, "alpha/b", "graph.rlvitalsPanel")
    visit.page.locator('[data-panel="alpha/b"] .nsewdrag').hover()
    is_drawn(visit, "alpha/a", "graph.querySelector('.hoverlayer').textContent.includes('step')")


def test_the_page_of_a_run_that_is_deleted_says_so(collector, visit):
    """The message comes with the next request for data of the run; the loaded data stay."""
    run_id = collector.run(run="gone", records=steps(0, 5))
    open_workspace(collector, visit, run_id)
    is_drawn(visit, "alpha/a")
    answer = collector.pool.request("DELETE", f"{collector.url}/api/v1/runs/{run_id}", fields={"force": "true"})
    assert answer.status == 200
    visit.page.evaluate("window.dash_clientside.set_props('run-refresh', { data: Date.now() })")
    expect(visit.page.locator("#run-header [role=alert]")).to_contain_text("has no such run any more")
    visit.read_panels_again()
    is_drawn(visit, "alpha/a")
