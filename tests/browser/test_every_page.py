"""Every page at three widths, in both themes: nothing is cut off, complained of or blocked; names are shown as text."""

import re

import pytest
from playwright.sync_api import expect

from monitor_server.settings import Settings
from tests.browser.accessibility import COLOUR_RULES, violations
from tests.browser.policy import check_policy
from tests.browser.signing_in import sign_in
from tests.live import eventually, serving
from tests.monitor_server.access.conftest import Guarded
from tests.sampled_responses import FELL, response

HOSTILE = "<img src=x onerror=alert(1)>"
NAMES = [HOSTILE, "مكافأة/متوسط", "奖励/平均", "🔥/😀", "'\"><script>alert(1)</script>", "__proto__", "constructor/x"]
RUN = f"{HOSTILE} مرحبا __proto__ {'w' * 120}"
READY = {
    "/": ".fleet-row",
    "/?group=project&curve=reward/mean": ".fleet-group",
    "/runs/{run}": "[data-panel] .js-plotly-plot",
    "/runs/{run}/responses": ".responses-list .response",
    "/runs/{run}/alerts/{alert}": ".history",
    "/compare?run={run}&run={other}": ".compare-chart .js-plotly-plot",
    "/compare": "h1",
    "/rules": "#rules-list",
    "/settings": "#keys-list",
    "/runs/nobody": "main h1",
    "/runs/{run}/alerts/nobody": "main h1",
}
NARROWEST = (320, 640)
SIZES = {"phone": (360, 740), "desk": (1440, 900)}
# It has the elements and colours of a desk, in a larger type and more columns.
WALL = (3840, 2160)
IS_WIDER = "document.documentElement.scrollWidth > window.innerWidth"


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    """A collector with two runs that have hostile names, projects, signals and responses."""
    address = f"sqlite:///{tmp_path_factory.mktemp('pages')}/pages.db"
    with serving(Settings(database_url=address, dashboard="dashboard.app:attach")) as live:
        yield live


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A collector without runs that needs a key."""
    address = f"sqlite:///{tmp_path_factory.mktemp('guarded')}/guarded.db"
    with serving(Settings(database_url=address, dashboard="dashboard.app:attach")) as live:
        guarded = Guarded(live)
        guarded.key("admin")
        yield guarded


@pytest.fixture(scope="module")
def names(collector):
    """The names that the addresses of the pages need."""
    records = [
        {
            "step": step,
            "scalars": {
                "reward/mean": 0.5,
                "grad/norm": 1.0 if step < 20 else "NaN",
                **dict.fromkeys(NAMES, 1.0 + step),
            },
            "responses": [response(text="\n".join(5 * NAMES), **FELL)] if step > 20 else [],
        }
        for step in range(24)
    ]
    run, other = (
        collector.run(
            run=f"{name} {RUN}",
            project=f"{HOSTILE} 项目 __PROTO__",
            config={name: name},
            records=records,
        )
        for name in ("🔥", "أ")
    )
    eventually(lambda: collector.get(f"/runs/{run}")["last_step"] == 23)
    alert = collector.get("/alerts", run_id=run, state="firing")["items"][0]["id"]
    tagged = collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{run}", json={"tags": ["w" * 60]})
    rule = {"name": "w" * 60, "condition": "absence", "signal": "w" * 190, "for_steps": 9}
    ruled = collector.pool.request("POST", f"{collector.url}/api/v1/rules", json={"rule": rule})
    assert (tagged.status, ruled.status) == (200, 200)
    return {"run": run, "other": other, "alert": alert}


def open_page(collector, names, visit, address, query=""):
    """Return the answer with the page, once the page is drawn."""
    answer = visit.page.goto(f"{collector.url}{address.format(**names)}{query}")
    ready = visit.page.locator(READY[address])
    visit.page.locator(READY[address].split()[0]).first.scroll_into_view_if_needed()  # a panel is drawn once seen
    expect(ready.first).to_be_visible()
    if not address.endswith("/nobody"):
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")  # the stream is open
    return answer


def check_every_size_and_theme(visit):
    """Nothing is wider than the screen, also the narrowest and a wall; axe-core finds no violation, menus are open.

    An open page follows the size of its window; opening it again for each size would take as long as all other work.
    """
    visit.page.evaluate("document.querySelectorAll('main details').forEach((menu) => (menu.open = true))")
    found = {}
    for name, (width, height) in SIZES.items():
        visit.page.set_viewport_size({"width": width, "height": height})
        for scheme, rules in (("light", None), ("dark", COLOUR_RULES)):
            visit.page.emulate_media(color_scheme=scheme)
            too_wide = ["wider than the screen"] if visit.page.evaluate(IS_WIDER) else []
            found[name, scheme] = too_wide + violations(visit, rules)
    for width, height in (WALL, NARROWEST):
        visit.page.set_viewport_size({"width": width, "height": height})
        eventually(lambda: not visit.page.evaluate(IS_WIDER))
    assert {place: complaints for place, complaints in found.items() if complaints} == {}


@pytest.mark.parametrize("visit", [SIZES["phone"]], indirect=True, ids=["phone"])
@pytest.mark.parametrize("address", READY)
def test_every_page_fits_each_screen_in_both_themes(collector, names, visit, address):
    """No error of a script, no violation of accessibility or of the policy, nothing too wide, no foreign element."""
    check_policy(open_page(collector, names, visit, address))
    check_every_size_and_theme(visit)
    assert visit.page.locator("#page img, #page script").count() == 0


def test_the_first_pages_fit_each_screen_in_both_themes(guarded, visit):
    """The page of somebody who is not signed in, then the page without runs, then the list of keys over it."""
    visit.page.goto(guarded.live.url)
    expect(visit.page.get_by_role("heading", name="Sign in")).to_be_visible()
    check_every_size_and_theme(visit)
    sign_in(visit.page, guarded.secrets[0])
    expect(visit.page.locator("pre:visible")).to_be_visible()
    check_every_size_and_theme(visit)
    visit.page.keyboard.press("?")
    expect(visit.page.locator("#keys")).to_be_visible()
    check_every_size_and_theme(visit)
    visit.page.keyboard.press("Escape")
    expect(visit.page.locator("#keys")).to_be_hidden()


def test_the_page_of_an_address_that_is_refused_fits_each_screen_in_both_themes(collector, visit):
    """The page states what is wrong and leads to the runs; the browser itself notes the status."""
    visit.page.goto(f"{collector.url}/?run=a%00b")
    expect(visit.page.get_by_role("heading", name="This page cannot be shown")).to_be_visible()
    expect(visit.page.get_by_text("must not contain NUL (%00)")).to_be_visible()
    check_every_size_and_theme(visit)
    assert all("status of 422" in complaint for complaint in visit.complaints)
    visit.complaints.clear()
    visit.page.get_by_role("link", name="All runs").click()
    expect(visit.page.get_by_role("navigation", name="pages")).to_be_visible()


def test_names_in_any_script_are_shown_as_text(collector, names, visit):
    """Each signal has a panel with its name and its value, which is found by its name, also with other controls."""
    check_policy(open_page(collector, names, visit, "/runs/{run}", "?smoothing=0.9&x=log&y=log&outliers=hidden"))
    assert violations(visit) == []
    expect(visit.page.locator("h1")).to_have_text(f"🔥 {RUN}")
    for name in NAMES:
        visit.page.get_by_placeholder("Find signals").fill(re.escape(name))
        panel = visit.page.locator("[data-panel]:visible")
        expect(panel.locator("h3")).to_have_text([name])
        expect(panel.locator(".panel-value")).to_have_text("24")
    visit.page.set_viewport_size({"width": NARROWEST[0], "height": NARROWEST[1]})
    eventually(lambda: not visit.page.evaluate(IS_WIDER))
