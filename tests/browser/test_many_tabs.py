"""Tabs in the background leave the six connections that a browser opens to a collector to the tab in view."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MILLISECONDS
from tests.browser.visibility import HIDDEN, SHOW

TABS = 7
NOTIFYING = """
window.Notification = class { static permission = "granted"; };
localStorage.setItem("rlvitals-notify", "on");
"""


@pytest.fixture
def open_tab(chromium, start_collector):
    """Open a page of a run in a tab of one browser, in the background or in view."""
    live = start_collector(dashboard="dashboard.app:attach")
    run_id = live.run(run="r", records=[{"step": step, "scalars": {"reward/mean": 0.5}} for step in range(3)])
    context = chromium.new_context()
    context.set_default_timeout(WAIT_MILLISECONDS)
    expect.set_options(timeout=WAIT_MILLISECONDS)

    def opened(script=""):
        page = context.new_page()
        page.add_init_script(script)
        page.goto(f"{live.url}/runs/{run_id}")
        expect(page.locator(".run-header h1")).to_have_text("r")
        return page

    yield opened
    context.close()


def state(page):
    return page.locator("#live-state")


@pytest.mark.parametrize("script", [HIDDEN, HIDDEN + NOTIFYING], ids=["silent", "notifying"])
def test_pages_in_the_background_leave_the_connections_to_the_one_that_is_seen(open_tab, script):
    """Each is drawn, the page that is seen is live, and a page that is shown at last is live too."""
    unseen = [open_tab(script) for _ in range(TABS)]
    expect(state(open_tab())).to_have_attribute("data-live", "live")
    expect(state(unseen[-1])).to_have_attribute("data-live", "waiting")
    unseen[-1].evaluate(SHOW)
    expect(state(unseen[-1])).to_have_attribute("data-live", "live")


def test_one_page_that_nobody_sees_listens_for_notifications_and_the_next_one_follows_it(open_tab):
    """The next page follows when the first is closed, and also when it is shown."""
    first, second, third = (open_tab(HIDDEN + NOTIFYING) for _ in range(3))
    expect(state(first)).to_have_attribute("data-live", "live")
    expect(state(second)).to_have_attribute("data-live", "waiting")
    first.close()
    expect(state(second)).to_have_attribute("data-live", "live")
    expect(state(third)).to_have_attribute("data-live", "waiting")
    second.evaluate(SHOW)
    expect(state(third)).to_have_attribute("data-live", "live")
    expect(state(second)).to_have_attribute("data-live", "live")


def test_a_page_that_is_out_of_view_at_the_next_try_of_a_refused_stream_listens_again(open_tab):
    """Five seconds are longer than a pause between two tries, and too short for the page to fall silent."""
    page = open_tab(HIDDEN.replace("true", "false"))
    page.clock.install()
    page.route("**/api/v1/stream*", lambda route: route.fulfill(status=503))
    page.reload()
    expect(state(page)).to_have_attribute("data-live", "waiting")
    page.evaluate("window.isUnseen = true; document.dispatchEvent(new Event('visibilitychange'))")
    page.clock.fast_forward(5000)
    page.unroute("**/api/v1/stream*")
    page.evaluate(SHOW)
    expect(state(page)).to_have_attribute("data-live", "live")
