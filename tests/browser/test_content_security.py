"""Every page with its content security policy: the browser blocks foreign scripts, and blocks nothing of ours."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import BLOCKED
from tests.browser.policy import check_policy


@pytest.fixture
def run(collector):
    """A run whose gradient is no number, and its alert."""
    values = [0.5] * 40 + ["NaN"]
    records = [
        {"step": step, "scalars": {"reward/mean": 0.2 + 0.01 * (step % 5), "grad/norm": value}}
        for step, value in enumerate(values)
    ]
    run_id = collector.run(run="r", records=records)
    return {"run": run_id, "alert": collector.get(f"/runs/{run_id}/alerts")["items"][0]["id"]}


def test_the_description_of_the_api_needs_nothing_that_its_policy_forbids(collector, visit):
    """A blocked resource fails the test; `test_every_page.py` checks each page of the dashboard in the same way."""
    check_policy(visit.page.goto(f"{collector.url}/docs", wait_until="networkidle"))
    expect(visit.page.locator("h1").first).to_be_visible()


def test_a_script_that_is_not_ours_is_blocked(collector, run, visit):
    """The policy is really on: an inline script and one from elsewhere do not run."""
    visit.page.goto(f"{collector.url}/runs/{run['run']}")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    with visit.page.expect_console_message(lambda message: message.text.startswith(BLOCKED)):
        ran = visit.page.evaluate(
            """() => {
                const inline = document.createElement('script');
                inline.textContent = 'window.foreign = true';
                document.body.append(inline);
                return window.foreign === true;
            }"""
        )
    assert ran is False
    assert visit.complaints
    assert all("Content Security Policy" in complaint for complaint in visit.complaints)
    visit.complaints.clear()
