"""Every page at three widths and in both themes: nothing is cut off or complained of, and names are shown as text."""

import re

import pytest
from playwright.sync_api import expect

from monitor_server.settings import Settings
from tests.browser.test_accessibility import violations
from tests.live import eventually, serving
from tests.monitor_server.api.test_responses import response

HOSTILE = "<img src=x onerror=alert(1)>"
NAMES = [HOSTILE, "مكافأة/متوسط", "奖励/平均", "🔥/😀", "'\"><script>alert(1)</script>"]
READY = {
    "/": ".fleet-row",
    "/?group=project&curve=reward/mean": ".fleet-group",
    "/runs/{run}": "[data-panel] .js-plotly-plot",
    "/runs/{run}?smoothing=0.9&x=log&y=log&outliers=hidden": "[data-panel] .js-plotly-plot",
    "/runs/{run}/responses": ".responses-list .response",
    "/runs/{run}/alerts/{alert}": ".history",
    "/compare?run={run}&run={other}": ".compare-chart .js-plotly-plot",
    "/compare": "h1",
    "/rules": "#rules-list",
    "/settings": "#keys-list",
    "/runs/nobody": "main h1",
    "/runs/{run}/alerts/nobody": "main h1",
}
SIZES = [(360, 740), (1440, 900), (3840, 2160)]


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    """A collector with two runs whose names, projects, signals and responses come from somebody with ideas."""
    address = f"sqlite:///{tmp_path_factory.mktemp('pages')}/pages.db"
    with serving(Settings(database_url=address, dashboard="dashboard.app:attach")) as live:
        yield live


@pytest.fixture(scope="module")
def names(collector):
    """What the addresses of the pages need."""
    records = [
        {
            "step": step,
            "scalars": {
                "reward/mean": 0.5,
                "grad/norm": 1.0 if step < 20 else "NaN",
                **dict.fromkeys(NAMES, 1.0 + step),
            },
            "responses": [response(text=" ".join(NAMES))],
        }
        for step in range(24)
    ]
    run, other = (
        collector.run(run=f"{name} {HOSTILE} مرحبا", project=f"{HOSTILE} 项目", config={name: name}, records=records)
        for name in ("🔥", "أ")
    )
    eventually(lambda: collector.get(f"/runs/{run}")["last_step"] == 23)
    alert = collector.get("/alerts", run_id=run, state="firing")["items"][0]["id"]
    return {"run": run, "other": other, "alert": alert}


def open_page(collector, names, visit, address):
    visit.page.goto(f"{collector.url}{address.format(**names)}")
    ready = visit.page.locator(READY[address])
    visit.page.locator(READY[address].split()[0]).first.scroll_into_view_if_needed()  # a panel is drawn once seen
    expect(ready.first).to_be_visible()


@pytest.mark.parametrize("visit", SIZES, indirect=True, ids=["phone", "desk", "wall"])
@pytest.mark.parametrize("address", READY)
def test_every_page_fits_its_screen_in_both_themes(collector, names, visit, address):
    """No error of a script, no violation of accessibility, nothing wider than the screen, no foreign element."""
    open_page(collector, names, visit, address)
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)
        assert not visit.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        assert violations(visit) == []
    assert visit.page.locator("#page img, #page script").count() == 0


def test_names_in_any_script_are_shown_as_text(collector, names, visit):
    """Each signal has a panel with its name and its value, which is found by its name."""
    open_page(collector, names, visit, "/runs/{run}")
    expect(visit.page.locator("h1")).to_have_text(f"🔥 {HOSTILE} مرحبا")
    for name in NAMES:
        visit.page.get_by_placeholder("Find signals").fill(re.escape(name))
        panel = visit.page.locator("[data-panel]:visible")
        expect(panel.locator("h3")).to_have_text([name])
        expect(panel.locator(".panel-value")).to_have_text("24")
