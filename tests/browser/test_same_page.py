"""The open page is opened with another query: by a link, by the button Back, or by a view that somebody shows."""

import pytest
from playwright.sync_api import expect

from tests.browser.held_answers import OPEN


@pytest.fixture
def collector(many_views, start_collector):  # noqa: ARG001 - it comes first
    """A collector with the dashboard mounted, without the limit of views."""
    return start_collector(dashboard="dashboard.app:attach")


@pytest.fixture
def ids(collector):
    """Two runs."""
    records = [{"step": step, "scalars": {"reward/mean": 0.5, "a": 1.0}} for step in range(5)]
    return [collector.run(run=name, records=records) for name in ("first", "second")]


def test_the_link_to_comparisons_leaves_the_one_that_is_open_and_back_leads_to_it(collector, visit, ids):
    """The page is that of the address bar."""
    page = visit.page
    address = f"{collector.url}/compare?run={ids[0]}&run={ids[1]}"
    page.goto(address)
    expect(page.locator("#compare-legend")).to_be_visible()
    page.get_by_role("navigation", name="pages").get_by_role("link", name="Compare").click()
    expect(page.locator("#compare-legend")).to_have_count(0)
    expect(page).to_have_url(f"{collector.url}/compare")
    page.go_back()
    expect(page.locator("#compare-legend")).to_be_visible()
    expect(page).to_have_url(address)


def test_the_page_of_a_run_takes_its_controls_and_its_zoom_from_the_address_each_time(collector, visit, ids):
    """Controls that the last address did not set are set too."""
    page = visit.page
    page.goto(f"{collector.url}/runs/{ids[0]}?signals=reward&zoom=1,3")
    search, range_ = (
        page.get_by_placeholder("Find signals"),
        "() => window.rlvitals.figure.find()?.rlvitalsZoom?.join()",
    )
    expect(search).to_have_value("reward")
    page.wait_for_function(f"() => ({range_})() === '1,3'")
    page.evaluate(OPEN, f"/runs/{ids[0]}?signals=a&zoom=2,4")
    expect(search).to_have_value("a")
    page.wait_for_function(f"() => ({range_})() === '2,4'")
    page.evaluate(OPEN, f"/runs/{ids[0]}")
    expect(search).to_have_value("")
    page.wait_for_function(f"() => window.rlvitals.figure.find() && !({range_})()")
    page.go_back()
    page.wait_for_function(f"() => ({range_})() === '2,4'")
    expect(search).to_have_value("a")
    expect(page).to_have_url(f"{collector.url}/runs/{ids[0]}?signals=a&zoom=2%2C4")


@pytest.mark.parametrize("last", ["/runs/{}?signals=a", "/runs/{}?signals=reward", "/compare?run={}"])
def test_a_tab_that_follows_ends_at_the_last_of_views_that_are_shown_at_once(collector, visit, ids, last):
    """The first leads to another page, which is not drawn yet when the others are shown."""
    page = visit.page
    page.goto(collector.url)
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    page.locator("#follow").click()
    first = f"/runs/{ids[0]}?signals=a"
    for address, by in ((first, "ann"), (f"/runs/{ids[1]}", "bob"), (last.format(ids[1]), "eve")):
        body = {"address": address, "by": by}
        assert collector.pool.request("POST", f"{collector.url}/api/v1/view", json=body).status == 200
    expect(page.locator("#shown-view [role=status]")).to_contain_text("eve has opened this page in this tab")
    expect(page).to_have_url(collector.url + last.format(ids[1]))
    expect(page.locator("#page")).to_contain_text("second")


def test_a_view_is_not_missed_while_the_streams_of_two_pages_are_being_opened(collector, visit, ids):
    """Only the stream of the first page is open until the third view has come."""
    page, held = visit.page, []
    page.goto(collector.url)
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    page.locator("#follow").click()
    page.route("**/api/v1/stream**", lambda route: held.append(route.request.url))  # it is never answered
    for run_id, by in ((ids[0], "ann"), (ids[1], "bob"), (ids[0], "eve")):
        with page.expect_request("**/api/v1/stream**"):
            body = {"address": f"/runs/{run_id}", "by": by}
            assert collector.pool.request("POST", f"{collector.url}/api/v1/view", json=body).status == 200
    expect(page.locator("#shown-view [role=status]")).to_contain_text("eve has opened this page in this tab")
    expect(page.locator("#page")).to_contain_text("first")
    assert len(held) == 3
