"""Notifications of the desktop about alerts, for who asks for them."""

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


def dying(first, value):
    return [{"step": step, "scalars": {"reward/mean": 0.5, "grad/norm": value}} for step in range(first, first + 20)]


def post(collector, path, body):
    answer = collector.pool.request("POST", f"{collector.url}/api/v1{path}", json=body)
    assert answer.status == 200, answer.data


def test_an_alert_is_shown_by_the_desktop_once_that_is_switched_on(collector, visit):
    """The browser's own is recorded in its place. While it is off nothing is shown, and nothing that is silenced."""
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
    for alert in collector.get("/alerts", state="firing")["items"]:
        post(collector, f"/alerts/{alert['id']}/ack", {"by": "a colleague"})
    post(collector, "/silences", {"project": "default", "minutes": 60})
    collector.run(run="silenced", records=[*dying(0, 1.0), *dying(20, "NaN")])
    expect(visit.page.locator(".summary")).to_contain_text("3 critical")
    shown = [tuple(each) for each in visit.page.evaluate("window.shown")]
    assert len(shown) == len(set(shown))
    assert all(title.endswith(": second") for title, _ in shown)
    visit.page.evaluate(REFUSING)
    collector.run(run="third", project="loud", records=[*dying(0, 1.0), *dying(20, "NaN")])
    expect(button).to_be_hidden()  # Chrome on Android shows notifications of service workers alone
    expect(visit.page.locator(".summary")).to_contain_text("4 critical")
