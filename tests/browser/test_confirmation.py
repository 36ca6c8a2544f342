"""The page that a link of a notification opens, in a real browser on a small screen."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.live import eventually
from tests.monitor_server.conftest import ScriptedEngine
from tests.monitor_server.notifications.receivers import receiving, webhook, written

REST = '[[routes]]\nchannels = ["hook"]\n[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n'
PUBLIC = "https://vitals.example"


@pytest.fixture
def address(start_collector, tmp_path: Path):
    """The address of each link of a critical alert on a run with a long name."""
    with receiving() as receiver:
        channel = webhook("oncall", receiver.url).replace("[channels.oncall]", "[channels.oncall]\nactions = true")
        path = written(tmp_path, channel, REST.replace("hook", "oncall"))
        live = start_collector(
            engine=ScriptedEngine, notifications=path, public_url=PUBLIC, dashboard="dashboard.app:attach"
        )
        name = "search-r1-" + "qwen2.5-3b-" * 12
        live.send(run=name, project="search", records=[{"step": 7, "scalars": {"page": 1.0}}])
        (body,) = eventually(lambda: receiver.bodies)
        yield {each["action"]: live.url + each["url"].removeprefix(PUBLIC) for each in body["alerts"][0]["links"]}


@pytest.mark.parametrize("visit", [(360, 740)], ids=["360x740"], indirect=True)
def test_a_link_is_opened_read_and_pressed_on_a_phone(address, visit):
    """Nothing is cut off, nothing is loaded, the keyboard reaches the button, and a reload does nothing again."""
    page = visit.page
    page.goto(address["silence_hour"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    found = Axe().run(page).response["violations"]
    assert found == []
    expect(page.get_by_role("heading", name="Silence the alert for an hour?")).to_be_visible()
    button = page.get_by_role("button", name="Silence the alert for an hour")
    assert button.bounding_box()["height"] >= 44
    page.keyboard.press("Tab")  # to the link to the dashboard
    page.keyboard.press("Tab")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Done")).to_be_visible()
    expect(page.get_by_text("silenced until")).to_be_visible()
    visit.complaints.clear()
    page.goto(address["silence_hour"])
    expect(page.get_by_text("It was used at")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    # The browser itself complains of every status above 399.
    visit.complaints[:] = [text for text in visit.complaints if "410" not in text]


@pytest.mark.parametrize("visit", [(360, 740)], ids=["360x740"], indirect=True)
def test_the_page_leads_to_its_alert(address, visit):
    """Without keys the dashboard opens; with keys it asks for one."""
    visit.page.goto(address["acknowledge"])
    visit.page.get_by_role("link", name="Open the alert on the dashboard").click()
    expect(visit.page.get_by_role("heading", name="scripted")).to_be_visible()
