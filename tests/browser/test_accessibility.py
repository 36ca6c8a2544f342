"""axe-core finds no violation on the dashboard's pages, in both colour schemes."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.monitor_server.api.test_responses import response


@pytest.fixture
def collector(start_collector):
    """A collector with the dashboard mounted and an empty store."""
    return start_collector(dashboard="dashboard.app:attach")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_violates_a_rule_of_accessibility(collector, visit, scheme):
    """The empty page, the fleet, a run with an alert, its responses, a comparison, settings and rules; menus open."""
    visit.page.emulate_media(color_scheme=scheme)
    visit.page.goto(collector.url)
    expect(visit.page.locator("pre:visible")).to_be_visible()
    assert violations(visit) == []
    visit.page.keyboard.press("?")
    expect(visit.page.locator("#keys")).to_be_visible()
    assert violations(visit) == []
    visit.page.keyboard.press("Escape")
    expect(visit.page.locator("#keys")).to_be_hidden()
    records = [
        {
            "step": step,
            "scalars": {"reward/mean": 0.5, "grad/norm": 1.0 if step < 20 else "NaN"},
            "responses": [response()],
        }
        for step in range(24)
    ]
    first, second = (collector.run(run=name, config={"lr": name}, records=records) for name in ("one", "two"))
    alert = collector.get("/alerts", run_id=first, state="firing")["items"][0]
    for address, ready in (
        ("/?group=project", ".fleet-row"),
        (f"/runs/{first}", "[data-panel] .js-plotly-plot"),
        (f"/runs/{first}/responses", ".responses-list .response"),
        (f"/compare?run={first}&run={second}", ".compare-chart .js-plotly-plot"),
        ("/settings", "#keys-list"),
        ("/rules", "#rules-list"),
        (f"/runs/{first}/alerts/{alert['id']}", ".history"),
    ):
        visit.page.goto(f"{collector.url}{address}")
        visit.page.locator(ready).first.scroll_into_view_if_needed()
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
        visit.page.evaluate("document.querySelectorAll('main details').forEach((menu) => (menu.open = true))")
        assert violations(visit) == [], address


def violations(visit):
    """Return the violations that axe-core finds, with the first element of each."""
    found = Axe().run(visit.page).response["violations"]
    return [(violation["id"], violation["nodes"][0]["html"]) for violation in found]
