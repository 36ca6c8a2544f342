"""Pages that are open while the collector fails or is away say so, and read again the data that they missed."""

import pytest
from playwright.sync_api import expect

from monitor_server.settings import Settings
from tests.browser.drawn_rewards import DRAWN, REWARDS, steps
from tests.browser.held_collector import Held
from tests.failing import REFUSAL, Failing
from tests.live import eventually, serving
from tests.sampled_responses import response


@pytest.fixture
def settings(database_url):
    """The settings of a collector whose database outlives it."""
    return Settings(database_url=database_url, dashboard="dashboard.app:attach")


@pytest.fixture
def failing(settings):
    """A collector with two runs of three steps, which can be made to fail: (live, failing, ids of the runs)."""
    with serving(settings) as live:
        records = [{**step, "responses": [response(text="right")]} for step in steps(0, 3)]
        ids = [live.run(run=name, records=records) for name in ("kept", "other")]
        eventually(lambda: all(live.get(f"/runs/{run_id}")["last_step"] == 2 for run_id in ids))
        yield live, Failing(live), ids


def is_said(visit):
    """The bar says that the collector cannot be read."""
    expect(visit.page.locator("#live-state")).to_have_attribute("data-failing", "")


def is_over(visit):
    """The bar says it no longer."""
    expect(visit.page.locator("#live-state")).not_to_have_attribute("data-failing", "")


def show_panel(visit, signal):
    """Bring the panel of a signal into view, and wait until it is drawn."""
    visit.page.locator(f"[data-panel='{signal}']").scroll_into_view_if_needed()
    visit.page.locator(f"[data-panel='{signal}'] .js-plotly-plot").wait_for()


def test_a_run_reads_again_what_it_missed_though_nothing_more_is_sent(failing, visit):
    """A signal that arrived meanwhile gets its place. A panel whose request was refused keeps its curve until then."""
    live, refusing, (run_id, _) = failing
    visit.page.goto(f"{live.url}/runs/{run_id}")
    visit.page.wait_for_function(f"() => {DRAWN} && {REWARDS}.endsWith('2')")
    show_panel(visit, "reward/mean")
    refusing.status = 429
    live.run(run="kept", records=[{"step": 3, "scalars": {"reward/mean": 1.0, "own/new": 3.0}}])
    is_said(visit)
    visit.read_panels_again()
    expect(visit.page.locator("[data-panel='reward/mean'] .js-plotly-plot")).to_be_visible()
    refusing.status = 0
    expect(visit.page.locator("#workspace-count")).to_have_text("All signals (2)")
    show_panel(visit, "own/new")
    expect(visit.page.locator(".panel-error")).to_have_count(0)
    is_over(visit)
    visit.page.wait_for_function(f"() => {REWARDS} === '0,1,2,3'")
    visit.page.goto("about:blank")


def test_the_fleet_stays_as_it_is_while_it_cannot_be_read(failing, visit):
    """The message is that of the bar; the table keeps its place, and shows afterwards what it has missed."""
    live, refusing, _ = failing
    visit.page.goto(live.url)
    expect(visit.page.locator(".fleet-row")).to_have_count(2)
    visit.page.locator("#fleet-grid").evaluate("(table) => (table.isFirst = true)")
    refusing.status = 503
    live.run(run="newer", records=steps(0, 3))
    is_said(visit)
    failed = refusing.count
    eventually(lambda: refusing.count > failed + 3)
    expect(visit.page.locator(".fleet-row")).to_have_count(2)
    expect(visit.page.get_by_role("alert")).to_have_count(0)
    refusing.status = 0
    expect(visit.page.locator(".fleet-row")).to_have_count(3)
    expect(visit.page.locator(".fleet-counts")).to_contain_text("3 running")
    assert visit.page.locator("#fleet-grid").evaluate("(table) => table.isFirst")


@pytest.mark.parametrize(
    "asked",
    [
        ("/runs/{0}/responses", "incorrect", ".responses-list > *", "correct=false"),
        ("/compare?run={0}&run={1}", "share of the run", ".compare-chart .js-plotly-plot", "x=share"),
    ],
    ids=["responses", "comparison"],
)
def test_what_was_chosen_while_the_collector_failed_is_drawn_once_it_answers(failing, visit, asked):
    """The message stands where it was asked for, and the choice stays in the controls and in the address."""
    live, refusing, ids = failing
    page, choice, drawn, kept = asked
    visit.page.goto(f"{live.url}{page.format(*ids)}")
    visit.page.locator(drawn).first.wait_for()
    refusing.status = 503
    visit.page.get_by_text(choice, exact=True).first.click()
    expect(visit.page.get_by_role("alert")).to_contain_text(REFUSAL["detail"])
    expect(visit.page.locator("#page")).to_contain_text("The page asks again every few seconds.")
    refusing.status = 0
    expect(visit.page.get_by_role("alert")).to_have_count(0)
    visit.page.locator(drawn).first.wait_for()
    expect(visit.page.get_by_label(choice, exact=True)).to_be_checked()
    assert kept in visit.page.url


def test_the_settings_are_drawn_once_the_collector_answers(failing, visit):
    """A failed section is not shown as one that the reader may not see."""
    live, refusing, _ = failing
    refusing.status = 500
    visit.page.goto(f"{live.url}/settings")
    expect(visit.page.get_by_role("alert")).to_contain_text("The settings cannot be shown")
    refusing.status = 0
    expect(visit.page.locator("#keys-list")).to_contain_text("No key exists yet.")


def test_a_choice_of_runs_says_that_it_searches_and_that_it_cannot(failing, visit):
    """The message that no run matches appears only once that is known."""
    live, refusing, (run_id, _) = failing
    held = Held(live)
    visit.page.goto(f"{live.url}/compare?run={run_id}")
    visit.page.locator(".compare-chart .js-plotly-plot").first.wait_for()
    visit.page.locator("#compare-runs").click()
    offered = visit.page.locator(".dash-dropdown-content")
    held.close()
    visit.page.get_by_role("searchbox").fill("nobody")
    expect(offered).to_contain_text("Searching the runs…")
    held.open()
    expect(offered).to_contain_text("No run matches.")
    refusing.status = 503
    visit.page.get_by_role("searchbox").fill("nobody else")
    expect(offered).to_contain_text("The runs cannot be searched. The collector answered 503")
    refusing.status = 0
    visit.page.get_by_role("searchbox").fill("other")
    expect(offered).to_contain_text("other · default")


def test_a_csv_that_cannot_be_read_is_said(failing, visit):
    """On the fleet, and above the panels of a run."""
    live, refusing, (run_id, _) = failing
    visit.page.goto(live.url)
    visit.page.locator(".fleet-row").first.wait_for()
    refusing.status = 503
    visit.page.get_by_role("button", name="CSV").click()
    expect(visit.page.locator("#fleet-left-out")).to_contain_text("No CSV was saved.")
    refusing.status = 0
    visit.page.goto(f"{live.url}/runs/{run_id}")
    show_panel(visit, "reward/mean")
    refusing.status = 503
    visit.page.locator("[data-export='reward/mean']").click()
    expect(visit.page.locator("#workspace-export-state")).to_contain_text("No CSV of reward/mean was saved.")
    refusing.status = 0
    is_over(visit)
    with visit.page.expect_download():
        visit.page.locator("[data-export='reward/mean']").click()
    expect(visit.page.locator("#workspace-export-state")).to_be_empty()


def test_an_acknowledgement_that_fails_is_said_beside_its_button(failing, visit):
    """The alert stays, and can be acknowledged again."""
    live, refusing, _ = failing
    run_id = live.run(run="sick", records=[{"step": step, "scalars": {"grad/norm": "NaN"}} for step in range(3)])
    alert = eventually(lambda: live.get("/alerts", run_id=run_id)["items"])[0]["id"]
    visit.page.goto(f"{live.url}/runs/{run_id}/alerts/{alert}")
    refusing.method, refusing.status = "POST", 503
    visit.page.get_by_role("button", name="Acknowledge").click()
    expect(visit.page.locator("#alert-acknowledge-state")).to_contain_text("Not acknowledged.")
    refusing.status = 0
    visit.page.get_by_role("button", name="Acknowledge").click()
    expect(visit.page.locator(".alert-head")).to_contain_text("acknowledged by")


@pytest.mark.parametrize(
    "way",
    [
        ("/", ".fleet-row .name >> nth=0", "#run-figure .js-plotly-plot"),
        ("/rules", ".bar-links >> text=Settings", "#keys-list"),
    ],
    ids=["to a run", "to the settings"],
)
def test_a_link_that_is_followed_while_the_collector_is_away_leads_there_once_it_is_back(
    settings, visit, unused_port, way
):
    """The address that the browser shows and the page are the same again."""
    page, link, drawn = way
    with serving(settings, port=unused_port) as live:
        live.run(run="kept", records=steps(0, 3))
        visit.page.goto(f"{live.url}{page}")
        visit.page.locator(link).wait_for()
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    visit.page.locator(link).click()
    is_said(visit)
    with serving(settings, port=unused_port):
        expect(visit.page.locator(drawn)).to_be_attached()
        is_over(visit)
        visit.page.goto("about:blank")
    visit.complaints[:] = [text for text in visit.complaints if "net::ERR_" not in text]


def test_the_table_of_runs_is_drawn_once_its_script_has_come(settings, visit):
    """The table is drawn also where the reader has left the page and come back before."""
    page, refused = visit.page, []

    def refuse_twice(route):
        refused.append(route.request.url)
        if len(refused) > 2:
            route.continue_()
        else:
            route.abort()

    with serving(settings) as live:
        run_id = live.run(run="kept", records=steps(0, 3))
        page.route("**/dash_ag_grid/**", refuse_twice)
        page.goto(live.url)
        expect(page.locator(".fleet-counts")).to_contain_text("1 running")
        page.get_by_role("navigation", name="pages").get_by_role("link", name="Rules").click()
        expect(page.locator("#rules-list")).to_be_visible()
        page.get_by_role("link", name="rlvitals").click()
        page.locator("#fleet-grid .fleet-row").click()
        page.wait_for_url(f"**/runs/{run_id}")
        page.goto("about:blank")
    assert len(refused) > 2
    visit.complaints[:] = [text for text in visit.complaints if "net::ERR_FAILED" not in text]
