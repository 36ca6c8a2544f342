"""Events that arrive while a page is requested, drawn or left: the page shows them without a further event."""

import pytest
from playwright.sync_api import expect

from tests.browser.held_answers import OPEN


@pytest.fixture
def run_id(collector):
    """A run named `first`."""
    return collector.run(run="first", records=[{"step": step, "scalars": {"a": 1.0}} for step in range(3)])


def rename(collector, run_id, title):
    answer = collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{run_id}", json={"title": title})
    assert answer.status == 200


def expect_live(page):
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")


def test_a_page_shows_what_changed_between_its_answer_and_its_stream(collector, visit, run_id):
    """The stream is slow to open, and the page is not kept waiting for it."""
    page = visit.page
    held = []
    page.route("**/api/v1/stream*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright counts its arguments
    page.goto(f"{collector.url}/runs/{run_id}")
    expect(page.locator("#run-header h1")).to_have_text("first")
    rename(collector, run_id, "second")
    for route in held:
        route.continue_()
    expect(page.locator("#run-header h1")).to_have_text("second")


def test_a_page_shows_what_changed_while_its_answer_was_on_the_way(collector, visit, run_id):
    """The stream is open by then."""
    page = visit.page

    def delay(route):
        answer = route.fetch()
        if '"output":"page.children"' in route.request.post_data:
            rename(collector, run_id, "second")
        route.fulfill(response=answer)

    page.route("**/_dash-update-component*", delay)
    page.goto(f"{collector.url}/runs/{run_id}")
    expect(page.locator("#run-header h1")).to_have_text("second")


def test_the_refresh_that_the_last_page_waited_for_does_not_keep_this_one_from_its_own(collector, visit, run_id):
    """A page is drawn again at most every two seconds, and may be left meanwhile."""
    page = visit.page
    page.goto(f"{collector.url}/runs/{run_id}")
    expect_live(page)
    rename(collector, run_id, "second")
    expect(page.locator("#run-header h1")).to_have_text("second")
    rename(collector, run_id, "third")
    page.evaluate(OPEN, "/")
    expect(page.locator(".fleet-row .name")).to_have_text("third")
    expect_live(page)
    rename(collector, run_id, "fourth")
    expect(page.locator(".fleet-row .name")).to_have_text("fourth")


def test_a_message_in_place_of_a_page_is_not_updated_with_the_events_of_the_last_page(collector, visit, run_id):
    """The message has no such elements, and the title of the tab is not that of the last page."""
    page = visit.page
    page.goto(f"{collector.url}/runs/{run_id}")
    expect_live(page)
    page.evaluate(OPEN, "/runs/nobody")
    expect(page.locator("h1")).to_have_text("No such run")
    expect(page).to_have_title("rlvitals")
    rename(collector, run_id, "second")
    page.evaluate(OPEN, f"/runs/{run_id}")
    expect(page.locator("#run-header h1")).to_have_text("second")
    expect(page).to_have_title("second · rlvitals")


def test_a_page_that_the_browser_kept_for_the_button_back_shows_what_changed_meanwhile(collector, kept, run_id):
    """The browser shows it as it was left, with its stream closed."""
    page = kept
    page.goto(f"{collector.url}/runs/{run_id}")
    expect_live(page)
    page.goto(f"{collector.url}/healthz")
    rename(collector, run_id, "second")
    page.evaluate("() => void setTimeout(() => history.back())")
    expect(page.locator("#run-header h1")).to_have_text("second")
    assert page.evaluate("window.isKept")


def test_a_page_shows_no_step_of_an_attempt_that_a_reset_has_removed(collector, visit):
    """The page also drops steps that were pushed to it before the reset."""
    page = visit.page

    def send(first, end, attempt):
        records = [{"step": step, "scalars": {"reward/mean": 0.1 * step}} for step in range(first, end)]
        return collector.run(run="r", attempt=attempt, records=records)

    def expect_steps(end):
        drawn = "window.rlvitals.figure.find()?.data.find((trace) => trace.meta.role === 'line')?.x.join()"
        page.wait_for_function(f"() => {drawn} === '{','.join(map(str, range(end)))}'")

    run_id = send(0, 3, attempt=1)
    page.goto(f"{collector.url}/runs/{run_id}")
    expect_live(page)
    for step in range(3, 9):
        send(step, step + 1, attempt=99 if step > 5 else 1)
    expect_steps(9)
    expect(page.locator(".facts")).to_contain_text("attempt2")
    collector.pool.request("POST", f"{collector.url}/api/v1/runs/{run_id}/reset", json={"attempt": 1})
    expect(page.locator(".facts")).to_contain_text("attempt1")
    expect_steps(6)
    send(6, 7, attempt=1)
    expect_steps(7)
