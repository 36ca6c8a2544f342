"""The page that compares runs, in a real browser."""

from playwright.sync_api import expect

from tests.browser.stillness import check_stillness
from tests.live import eventually


def run(collector, name, level, **config):
    records = [{"step": step, "scalars": {"reward/mean": level, "own/signal": step}} for step in range(20)]
    return collector.run(run=name, config=config, records=records)


def test_runs_are_overlaid_and_their_differences_named(collector, visit):
    """The address chooses the runs; the differing setting stands in the table, and nothing scrolls sideways."""
    first, second = run(collector, "one", 0.1, lr=1, kl=0), run(collector, "two", 0.9, lr=2, kl=0)
    visit.page.goto(f"{collector.url}/compare?run={first}&run={second}&signal=own/signal&signal=reward/mean")
    expect(visit.page.locator(".compare-chart")).to_have_count(2)
    visit.page.wait_for_function(
        """() => [...document.querySelectorAll('.compare-chart .js-plotly-plot')].every(
            (graph) => graph.data?.length === 2)"""
    )
    expect(visit.page.locator(".table-card").last).to_contain_text("lr")
    expect(visit.page.locator(".table-card").last).not_to_contain_text("kl")
    for width, height in ((1440, 900), (390, 844)):
        visit.page.set_viewport_size({"width": width, "height": height})
        eventually(lambda: visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_nothing_moves_when_the_charts_are_drawn(collector, visit):
    """The tables below have their places before the library of charts is loaded."""
    first, second = run(collector, "one", 0.1), run(collector, "two", 0.9)
    address = f"{collector.url}/compare?run={first}&run={second}"
    check_stillness(visit.page, address, below="#compare-outcomes", chart=".compare-chart")


def test_the_settings_of_twenty_runs_are_named_wherever_the_table_is_scrolled(collector, visit):
    """The first column stays at its place."""
    ids = [run(collector, f"a-run-with-a-long-name-{number}", 0.1, learning_rate=number) for number in range(20)]
    visit.page.goto(f"{collector.url}/compare?{'&'.join(f'run={run_id}' for run_id in ids)}")
    table = visit.page.locator(".table-card .scroll").last
    name = table.get_by_role("rowheader", name="learning_rate")
    before = name.bounding_box()["x"]
    assert table.evaluate("(box) => { box.scrollLeft = 900; return box.scrollLeft; }") == 900
    assert name.bounding_box()["x"] == before


def test_a_run_leads_to_its_comparison_and_the_address_holds_the_choice(collector, visit):
    """The link is on the run's page; alignment, scale, lines and smoothing are parts of the address."""
    run_id = run(collector, "one", 0.1)
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    visit.page.locator("#run-header").get_by_role("link", name="Compare").click()
    expect(visit.page.locator(".compare-chart")).to_have_count(1)
    visit.page.get_by_text("share of the run").click()
    visit.page.wait_for_url(f"**/compare?run={run_id}&x=share")
    visit.page.get_by_text("seeds as median and range").click()
    visit.page.wait_for_url(f"**/compare?run={run_id}&x=share&lines=seeds")
    visit.page.goto(f"{collector.url}/compare?run={run_id}&y=log&smoothing=0.8")
    expect(visit.page.locator("#compare-smoothing").get_by_role("slider")).to_have_attribute("aria-valuenow", "0.8")
    visit.page.wait_for_function(
        "() => { const graph = document.querySelector('.compare-chart .js-plotly-plot');"
        " return graph && graph._fullLayout && graph._fullLayout.yaxis.type === 'log'; }"
    )


def test_a_zoom_in_one_chart_is_that_of_all_and_reads_every_step(collector, visit):
    """Of 3,000 steps a chart has 800; the address holds the zoom until it is undone or another axis is chosen."""
    records = [{"step": step, "scalars": {"reward/mean": step % 7, "own/signal": step}} for step in range(3000)]
    run_id = collector.run(run="long", records=records)
    page, address = visit.page, f"/compare?run={run_id}&signal=own/signal&signal=reward/mean"
    page.goto(f"{collector.url}{address}")

    def charts(condition):
        # Dash listens to a chart only after it is drawn, and does not see a zoom before that.
        page.wait_for_function(
            f"""() => {{
                const graphs = [...document.querySelectorAll('.compare-chart .js-plotly-plot')];
                const isHeard = (graph) => graph._ev?.listenerCount('plotly_relayout') > 0;
                return graphs.length === 2 && graphs.every((graph) => graph.data?.[0] && isHeard(graph) && {condition});
            }}"""
        )

    charts("graph.data[0].x.length <= 800")
    zoom = "{'xaxis.range[0]': 100, 'xaxis.range[1]': 200}"
    page.evaluate(f"Plotly.relayout(document.querySelector('.compare-chart .js-plotly-plot'), {zoom})")
    charts("graph._fullLayout.xaxis.range.join() === '100,200' && graph.data[0].x.length === 101")
    page.wait_for_url("**&zoom=100%2C200")
    page.reload()
    charts("graph.data[0].x.length === 101")
    undo = "{'xaxis.autorange': true}"
    page.evaluate(f"Plotly.relayout(document.querySelector('.compare-chart .js-plotly-plot'), {undo})")
    charts("graph.data[0].x.length > 101")
    page.goto(f"{collector.url}{address}&zoom=100,200")
    charts("graph.data[0].x.length === 101")
    page.get_by_text("share of the run").click()
    charts("graph.data[0].x.length > 101")


def test_without_runs_the_page_says_what_to_do(collector, visit):
    """The page explains what to do, and shows no empty chart."""
    visit.page.goto(f"{collector.url}/compare")
    expect(visit.page.locator("#compare-body")).to_contain_text("Choose two runs or more")


def test_the_page_without_runs_is_not_refreshed(collector, visit):
    """An answer that failed is asked for again, and this page has asked for none."""
    visit.page.clock.install()
    visit.page.goto(f"{collector.url}/compare")
    expect(visit.page.locator("#compare-body")).not_to_be_empty()
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    visit.page.evaluate("window.rlvitals.askAgain()")
    visit.page.clock.run_for(20_000)


def test_runs_of_an_address_that_are_not_compared_are_named(collector, visit):
    """The page names runs that do not exist and runs beyond twenty, and compares the others."""
    first = run(collector, "one", 0.1)
    visit.page.goto(f"{collector.url}/compare?run={first}&run=gone&run=%ED%A0%80")
    expect(visit.page.locator(".left-out")).to_contain_text("No run has the id 'gone' or '")
    expect(visit.page.locator(".left-out")).to_contain_text("deleted, or the address is mistyped")
    expect(visit.page.locator(".compare-chart")).to_have_count(1)
    asked = "&".join(f"run=gone{place}" for place in range(24))
    visit.page.goto(f"{collector.url}/compare?run={first}&{asked}")
    expect(visit.page.locator(".left-out")).to_contain_text("At most 20 runs are compared: the first ones of the 25")
    expect(visit.page.locator(".compare-chart")).to_have_count(1)


def test_the_example_is_an_ablation_of_recorded_runs(collector, visit):
    """Six runs are stored and laid over each other; λ and seed stand among the settings that differ."""
    visit.page.goto(f"{collector.url}/compare")
    visit.page.get_by_role("button", name="Show me an example").click()
    visit.page.wait_for_url("**/compare?run=*")
    expect(visit.page.locator(".legend li")).to_have_count(6)
    expect(visit.page.locator(".compare-chart")).to_have_count(4)
    visit.page.wait_for_function(
        """() => [...document.querySelectorAll('.compare-chart .js-plotly-plot')].every(
            (graph) => graph.data?.length === 6)"""
    )
    expect(visit.page.locator(".table-card").last).to_contain_text("lambda")
    assert {run["name"] for run in collector.get("/runs", project="samples")["items"]} == {
        f"lambda-{strength}-seed{seed}" for strength in ("0", "0.01", "0.1") for seed in (3, 4)
    }


def test_a_comparison_follows_the_runs_that_it_shows(collector, visit):
    """A new step of a drawn run reaches its line, and a step of another run causes no drawing."""
    first, second = run(collector, "one", 0.1), run(collector, "two", 0.9)
    page = visit.page
    page.goto(f"{collector.url}/compare?run={first}&run={second}&signal=own/signal")
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    last = """(step) => {
        const graph = document.querySelector('.compare-chart .js-plotly-plot');
        return graph && graph.data?.[1]?.x.at(-1) === step; }"""
    page.wait_for_function(last, arg=19)
    drawn = []
    page.on("request", lambda request: drawn.append(request) if "_dash-update-component" in request.url else None)
    run(collector, "three", 0.5)
    collector.run(run="two", records=[{"step": 25, "scalars": {"reward/mean": 0.9, "own/signal": 25}}])
    page.wait_for_function(last, arg=25)
    assert len([request for request in drawn if "compare-refresh" in (request.post_data or "")]) <= 2
    expect(page.locator(".table-card").first).to_contain_text("25")


def test_a_refresh_that_is_answered_late_does_not_undo_what_was_chosen_since(collector, visit):
    """The reader chooses a logarithmic axis while the answer for the linear one is on its way."""
    page = visit.page
    page.goto(f"{collector.url}/compare?run={run(collector, 'late', 0.1)}&signal=own/signal")
    is_drawn = """(type) => document.querySelector('.compare-chart .js-plotly-plot')?.layout?.yaxis.type === type"""
    page.wait_for_function(is_drawn, arg="linear")
    page.evaluate("""() => {
        const send = window.fetch;
        window.fetch = async (address, options) => {
            const answer = await send(address, options);
            if (String(options?.body).includes("compare-refresh.data")) await new Promise((go) => (window.letGo = go));
            return answer;
        };
        dash_clientside.set_props("compare-refresh", { data: 1 });
    }""")
    page.wait_for_function("() => window.letGo")
    page.evaluate("dash_clientside.set_props('compare-scale', { value: 'log' })")
    page.wait_for_function(is_drawn, arg="log")
    page.evaluate("() => { window.letGo(); window.letGo = null; }")
    page.wait_for_function("() => !window.rlvitals.requests.isAsking()")
    page.evaluate("dash_clientside.set_props('compare-refresh', { data: 2 })")
    page.wait_for_function("() => window.letGo")  # so the late answer has been drawn, if it is
    assert page.evaluate(is_drawn, "log")
