"""Pages while the collector is down, does not answer, or is started again: they say so, and recover by themselves."""

import json
import shutil

import pytest
from playwright.sync_api import expect

from dashboard.page_delivery import own_files
from monitor_server.settings import Settings
from monitor_server.store.operations.backup import back_up
from tests.browser.drawn_rewards import DRAWN, LINE, REWARDS, steps
from tests.browser.held_collector import Held
from tests.live import eventually, serving
from tests.standalone_dashboard import serving_dashboard


@pytest.fixture
def settings(database_url):
    """The settings of a collector whose database outlives it."""
    return Settings(database_url=database_url, dashboard="dashboard.app:attach")


@pytest.mark.parametrize("page", ["/", "/runs/{run_id}", "/runs/{run_id}/responses", "/compare", "/rules", "/settings"])
def test_a_page_is_drawn_once_the_collector_answers(settings, visit, unused_port, page):
    """A dashboard beside a collector that is away states that it does not answer, and draws the page when it does."""
    with serving(settings) as live:
        run_id = live.run(run="kept", records=steps(0, 3))
    with serving_dashboard(f"http://127.0.0.1:{unused_port}") as url:
        visit.page.goto(f"{url}{page.format(run_id=run_id)}")
        expect(visit.page.get_by_role("alert")).to_contain_text("cannot be shown")
        expect(visit.page.locator("#page")).to_contain_text("The page asks again every few seconds.")
        with serving(settings, port=unused_port):
            expect(visit.page.get_by_role("alert")).to_have_count(0)
            expect(visit.page.locator("h1").first).to_be_attached()
            expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
            visit.page.goto("about:blank")  # a stream cut short would be a complaint
    # Chromium itself reports each question about the session and the stream that was answered with 502 meanwhile.
    visit.complaints[:] = [text for text in visit.complaints if "502 (Bad Gateway)" not in text]


def test_a_chart_has_each_step_once_after_the_collector_was_started_again(settings, visit, unused_port):
    """The bar says that the connection is lost; steps that were sent meanwhile are drawn, none of them twice."""
    with serving(settings, port=unused_port) as live:
        run_id = live.run(run="kept", records=steps(0, 10))
        visit.page.goto(f"{live.url}/runs/{run_id}")
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        visit.page.wait_for_function(f"() => {DRAWN} && {REWARDS}.endsWith('9')")
        live.run(run="kept", records=steps(10, 12))
        visit.page.wait_for_function(f"() => {REWARDS}.endsWith('11')")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "waiting")
    with serving(settings, port=unused_port) as live:
        live.run(run="kept", records=steps(12, 15))
        eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 14)
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        live.run(run="kept", records=steps(15, 16))
        visit.page.wait_for_function(f"() => {REWARDS} === '{','.join(map(str, range(16)))}'")
        visit.page.goto("about:blank")
    # Chromium itself reports each request that a collector which is down does not answer.
    visit.complaints[:] = [text for text in visit.complaints if "net::ERR_" not in text]


def test_a_curve_of_the_fleet_has_each_step_after_the_collector_was_started_again(settings, visit, unused_port):
    """The curve is that of a chosen signal, whose values are not in the rows."""

    def send(live, first, end):
        live.run(run="kept", records=[{"step": step, "scalars": {"own": step}} for step in range(first, end)])

    def expect_values(end):
        values = f"[{','.join(map(str, range(end)))}]"
        expect(visit.page.locator(".sparkline")).to_have_attribute("data-sparkline", values)

    with serving(settings, port=unused_port) as live:
        send(live, 0, 3)
        visit.page.goto(f"{live.url}/?curve=own")
        expect_values(3)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "waiting")
    with serving(settings, port=unused_port) as live:
        send(live, 3, 6)
        expect_values(6)
        send(live, 6, 7)
        expect_values(7)
        visit.page.goto("about:blank")
    visit.complaints[:] = [text for text in visit.complaints if "net::ERR_" not in text]


def test_a_page_of_a_collector_that_hangs_is_not_live(settings, visit):
    """No stream ends, and nothing comes: the page asks whether the collector answers, and says that it does not."""
    with serving(settings) as live:
        run_id = live.run(run="kept", records=steps(0, 3))
        held, state = Held(live), visit.page.locator("#live-state")
        visit.page.clock.install()
        visit.page.goto(f"{live.url}/runs/{run_id}")
        visit.page.wait_for_function(f"() => {DRAWN} && {REWARDS}.endsWith('2')")
        expect(state).to_have_attribute("data-live", "live")
        held.close(passed=["/api/v1/ingest"])
        with visit.page.expect_request("**/api/v1/session"):
            visit.page.clock.fast_forward(20_000)
        visit.page.clock.fast_forward(10_000)
        expect(state).to_have_attribute("data-live", "waiting")
        live.run(run="kept", records=steps(3, 5))
        held.open()
        expect(state).to_have_attribute("data-live", "live")
        visit.page.wait_for_function(f"() => {REWARDS} === '0,1,2,3,4'")
        visit.page.goto("about:blank")


def test_a_button_that_nobody_answers_is_said_in_the_bar_and_beside_it(settings, visit, unused_port):
    """The typed text stays, and is sent once the button is pressed again."""
    with serving(settings, port=unused_port) as live:
        run_id = live.run(run="kept", records=steps(0, 3))
        visit.page.goto(f"{live.url}/runs/{run_id}")
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        visit.page.locator(".label-form summary").click()
        visit.page.get_by_role("button", name="Save", exact=True).click()
        expect(visit.page.locator(".label-form [role=status]")).to_have_text("Nothing was changed.")
        visit.page.get_by_label("Notes").fill("found")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "waiting")
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.locator("#live-state")).to_have_attribute("data-unsent", "")
    assert _said(visit.page) == '"not sent: nobody answers"'
    expect(visit.page.locator(".label-form [role=status]")).to_have_text("Not sent: nobody answers.")
    with serving(settings, port=unused_port) as live:
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        visit.page.get_by_role("button", name="Save", exact=True).click()
        expect(visit.page.locator(".label-form [role=status]")).to_have_text("Saved.")
        assert live.get(f"/runs/{run_id}")["notes"] == "found"
        expect(visit.page.locator("#live-state[data-unsent]")).to_have_count(0)
        visit.page.goto("about:blank")
    visit.complaints[:] = [
        text for text in visit.complaints if "net::ERR_" not in text and "the server did not respond" not in text
    ]


def _said(page):
    return page.locator("#live-state").evaluate("(bar) => getComputedStyle(bar, '::after').content")


def test_a_page_that_is_open_during_an_upgrade_says_that_it_must_be_loaded_again(
    settings, visit, unused_port, monkeypatch, tmp_path
):
    """The new version has other scripts, and may not understand the page. Once loaded again, the page works."""
    with serving(settings, port=unused_port) as live:
        run_id = live.run(run="kept", records=steps(0, 3))
        visit.page.goto(f"{live.url}/runs/{run_id}")
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "waiting")
    with serving(settings, port=unused_port):  # as before
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        visit.page.wait_for_load_state("networkidle")
        assert _said(visit.page) == '"live"'
    monkeypatch.setattr(own_files, "ASSETS", shutil.copytree(own_files.ASSETS, tmp_path / "assets"))
    (tmp_path / "assets" / "upgraded.js").write_text("/* of the next version */")
    with serving(settings, port=unused_port):
        expect(visit.page.locator("#live-state[data-outdated]")).to_have_count(1)
        assert _said(visit.page) == '"upgraded: load this page again"'
        visit.page.reload()
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        expect(visit.page.locator("#live-state[data-outdated]")).to_have_count(0)
        visit.page.goto("about:blank")
    visit.complaints[:] = [text for text in visit.complaints if "net::ERR_" not in text and "404" not in text]


def test_an_update_that_the_dashboard_does_not_know_is_said_in_the_bar(settings, visit, unused_port):
    """Another version may have replaced the one that drew the page, with the same scripts."""
    with serving(settings, port=unused_port) as live:
        visit.page.goto(live.url)
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        unknown = {"output": "gone.children", "changedPropIds": []}
        options = {"method": "POST", "headers": {"Content-Type": "application/json"}, "body": json.dumps(unknown)}
        visit.page.evaluate("(options) => fetch('/_dash-update-component', options)", options)
        expect(visit.page.locator("#live-state[data-outdated]")).to_have_count(1)
        visit.page.goto("about:blank")
    visit.complaints[:] = [text for text in visit.complaints if "422" not in text]


def test_a_page_that_is_open_follows_a_backup_that_is_restored(tmp_path, visit, unused_port):
    """Steps that the backup does not have are gone from the chart, and steps that are sent after it are drawn once."""
    database, saved = tmp_path / "live.db", tmp_path / "saved.db"
    settings = Settings(database_url=f"sqlite:///{database}", dashboard="dashboard.app:attach")
    with serving(settings) as live:
        run_id = live.run(run="kept", records=steps(0, 6))
        eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 5)
        back_up(settings.database_url, saved)
    with serving(settings, port=unused_port) as live:
        lost = live.run(run="newer", records=steps(0, 3))
        live.run(run="kept", records=steps(6, 10))
        visit.page.goto(f"{live.url}/runs/{run_id}")
        visit.page.wait_for_function(f"() => {DRAWN} && {REWARDS}.endsWith('9')")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "waiting")
    for path in tmp_path.glob("live.db*"):
        path.unlink()
    saved.rename(database)
    with serving(settings, port=unused_port) as live:
        visit.page.wait_for_function(f"() => {REWARDS} === '0,1,2,3,4,5'")
        live.run(run="kept", records=steps(6, 8))
        visit.page.wait_for_function(f"() => {REWARDS} === '0,1,2,3,4,5,6,7'")
        visit.page.goto(f"{live.url}/runs/{lost}")
        expect(visit.page.get_by_role("heading", level=1)).to_have_text("No such run")
        visit.page.goto("about:blank")
    # Chromium and Dash report a request that the collector was stopped under.
    away = ("net::ERR_", "the server did not respond")
    visit.complaints[:] = [text for text in visit.complaints if not any(part in text for part in away)]


def test_a_slow_collector_is_named_and_each_step_is_drawn_once(settings, visit):
    """Steps that are pushed while an answer is awaited are in the chart after it, and a new signal gets its panel."""
    with serving(settings) as live:
        run_id = live.run(run="kept", records=steps(0, 5))
        eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 4)
        held, state = Held(live), visit.page.locator("#live-state")
        visit.page.goto(f"{live.url}/")
        expect(state).to_have_attribute("data-live", "live")
        expect(visit.page.locator(".fleet-row .name")).to_be_visible()
        held.close()
        visit.page.locator(".fleet-row .name").click()
        expect(state).to_have_attribute("data-slow", "")
        live.run(run="kept", records=steps(5, 8))
        held.open()
        visit.page.wait_for_function(f"() => {DRAWN} && {REWARDS} === '0,1,2,3,4,5,6,7'")
        expect(state).not_to_have_attribute("data-slow", "")
        held.close()
        for step in (8, 9, 10):
            live.run(
                run="kept", records=[{"step": step, "scalars": {"reward/mean": 1.0, "grad/norm": 2.0, "own/new": 3.0}}]
            )
        expect(state).to_have_attribute("data-slow", "")
        visit.page.wait_for_function(f"() => {REWARDS}.endsWith('10')")
        held.open()
        visit.page.wait_for_function(f"() => {LINE.format('grad/norm')} === '8,9,10'")
        expect(visit.page.locator("#workspace-count")).to_have_text("All signals (3)")
        visit.page.locator("[data-panel='own/new']").scroll_into_view_if_needed()
        expect(visit.page.locator("[data-panel='own/new'] .panel-value")).to_have_text("3")
        visit.page.wait_for_function(f"() => {REWARDS} === '{','.join(map(str, range(11)))}'")
        expect(state).not_to_have_attribute("data-slow", "")
        visit.page.goto("about:blank")
