"""Every page with its content security policy: the browser blocks foreign scripts, and blocks nothing of ours."""

import pytest
from playwright.sync_api import expect

PAGES = {
    "/": "#fleet-grid .fleet-row",
    "/runs/{run}": "#run-figure .js-plotly-plot",
    "/runs/{run}/responses": "h1",
    "/runs/{run}/alerts/{alert}": "h1",
    "/compare?runs={run}": "h1",
    "/settings": "h1",
    "/rules": "h1",
    "/runs/nobody": "main h1",
    "/docs": "h1",
}


@pytest.fixture
def live(start_collector):
    """A collector with a run that has failed."""
    return start_collector(dashboard="dashboard.app:attach")


@pytest.fixture
def run(live):
    """A run whose gradient is no number, and its alert."""
    values = [0.5] * 40 + ["NaN"]
    records = [
        {"step": step, "scalars": {"reward/mean": 0.2 + 0.01 * (step % 5), "grad/norm": value}}
        for step, value in enumerate(values)
    ]
    run_id = live.run(run="r", records=records)
    return {"run": run_id, "alert": live.get(f"/runs/{run_id}/alerts")["items"][0]["id"]}


@pytest.mark.parametrize("page", PAGES)
def test_no_page_needs_what_its_policy_forbids(live, run, visit, page):
    """A violation is a complaint of the console, which fails the test; nothing is asked of another machine."""
    visit.page.add_init_script(
        "document.addEventListener('securitypolicyviolation', (event) =>"
        " console.error(`blocked ${event.violatedDirective} ${event.blockedURI}`))"
    )
    answer = visit.page.goto(live.url + page.format(**run), wait_until="networkidle" if page == "/docs" else "load")
    policy = answer.header_value("content-security-policy")
    assert "default-src" in policy
    assert "unsafe-eval" not in policy
    scripts = policy.partition("script-src")[2].partition(";")[0]
    assert "unsafe-inline" not in scripts
    expect(visit.page.locator(PAGES[page]).first).to_be_visible()
    if page not in ("/docs", "/runs/nobody"):
        # Dash has drawn the page, and its scripts have opened the stream.
        expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")


def test_a_script_that_is_not_ours_is_blocked(live, run, visit):
    """The policy is really on: an inline script and one from elsewhere do not run."""
    visit.page.goto(f"{live.url}/runs/{run['run']}")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
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
