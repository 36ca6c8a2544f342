"""Notifications of the desktop about alerts, for who asks for them."""

import pytest
from playwright.sync_api import expect

RECORDING = """
window.shown = [];
window.Notification = class {
  static permission = "granted";
  constructor(title, options) { window.shown.push([title, options.body]); }
};
Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
"""
REFUSING = """() => {
  window.Notification = class {
    static permission = "granted";
    constructor() { throw new TypeError("Illegal constructor"); }
  };
}"""


@pytest.fixture
def collector(start_collector):
    """A collector with the dashboard mounted and an empty store."""
    return start_collector(dashboard="dashboard.app:attach")


def dying(first, value):
    return [{"step": step, "scalars": {"reward/mean": 0.5, "grad/norm": value}} for step in range(first, first + 20)]


def test_an_alert_is_shown_by_the_desktop_once_that_is_switched_on(collector, visit):
    """The browser's own notification is recorded in its place; while it is off nothing is shown."""
    visit.page.add_init_script(RECORDING)
    collector.run(run="first", records=dying(0, 1.0))
    visit.page.goto(collector.url)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    button = visit.page.get_by_role("button", name="Notify")
    expect(button).to_have_attribute("aria-pressed", "false")
    collector.run(run="first", records=dying(20, "NaN"))
    expect(visit.page.locator(".summary")).to_contain_text("critical")
    assert visit.page.evaluate("window.shown") == []
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    collector.run(run="second", records=[*dying(0, 1.0), *dying(20, "NaN")])
    visit.page.wait_for_function("() => window.shown.some(([title]) => title === 'critical: second')")
    visit.page.evaluate(REFUSING)
    collector.run(run="third", records=[*dying(0, 1.0), *dying(20, "NaN")])
    expect(button).to_be_hidden()  # Chrome on Android shows notifications of service workers alone
    expect(visit.page.locator(".summary")).to_contain_text("3 critical")
