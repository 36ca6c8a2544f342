"""Answers that come after the reader has gone to another page of the same kind, where components have the same ids."""

import pytest
from playwright.sync_api import expect

from tests.browser.held_answers import HOLD, OPEN, hold_back, let_go


@pytest.fixture
def ids(collector):
    """The runs `here` and `there`, which have the same signal with different values."""
    return [
        collector.run(run=name, records=[{"step": step, "scalars": {"a": value}} for step in range(3)])
        for name, value in (("here", 1.0), ("there", 7.0))
    ]


def open_run(visit, collector, run_id):
    visit.page.add_init_script(HOLD)
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")


def open_there(page, run_id):
    page.evaluate(OPEN, f"/runs/{run_id}")
    expect(page.locator("#run-header h1")).to_have_text("there")


def test_the_page_of_a_run_does_not_show_what_was_asked_for_another_one(collector, visit, ids):
    """Its header, its charts and its events stay its own, whenever the answer about the other run comes."""
    page = visit.page
    open_run(visit, collector, ids[0])
    hold_back(page, "run-refresh.data")
    collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{ids[0]}", json={"title": "HERE"})
    page.wait_for_function("() => window.letGo")
    open_there(page, ids[1])
    let_go(page)
    collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{ids[1]}", json={"title": "THERE"})
    expect(page.locator("#run-header h1")).to_have_text("THERE")


def test_a_form_is_not_filled_with_what_was_saved_for_another_run(collector, visit, ids):
    """Otherwise the next save would give this run the title of the other run. Its button works before that answer."""
    page = visit.page
    open_run(visit, collector, ids[0])
    page.locator(".label-form summary").click()
    page.get_by_label("Title").fill("HERE")
    hold_back(page, "label-save.n_clicks")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_function("() => window.letGo")
    open_there(page, ids[1])
    page.evaluate("() => (window.heldBack = null)")
    page.locator(".label-form summary").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".label-form [role=status]")).to_have_text("Nothing was changed.")
    let_go(page)
    expect(page.get_by_label("Title")).to_have_value("")
    assert collector.get(f"/runs/{ids[1]}")["title"] is None
    assert collector.get(f"/runs/{ids[0]}")["title"] == "HERE"


def test_the_panels_of_a_run_are_drawn_though_those_of_another_one_were_asked_for(collector, visit, ids):
    """The page does not wait for an answer that is not for it."""
    page = visit.page
    open_run(visit, collector, ids[0])
    page.locator("#workspace").scroll_into_view_if_needed()
    hold_back(page, "workspace-wanted.data")
    page.evaluate("() => window.rlvitals.panels.again()")
    page.wait_for_function("() => window.letGo")
    page.evaluate("() => (window.heldBack = null)")
    open_there(page, ids[1])
    page.locator("[data-panel=a]").scroll_into_view_if_needed()
    expect(page.locator("[data-panel=a] .panel-value")).to_have_text("7")
    let_go(page)
    page.evaluate("() => window.rlvitals.panels.again()")
    page.wait_for_function("() => !window.rlvitals.requests.isAsking()")
    expect(page.locator("[data-panel=a] .panel-value")).to_have_text("7")


def test_the_palette_finds_what_was_typed_before_the_page_was_drawn(collector, visit, ids):
    """It belongs to no page."""
    page = visit.page
    open_run(visit, collector, ids[0])
    page.keyboard.press("Control+k")
    hold_back(page, "palette-text.value")
    page.get_by_role("dialog").get_by_role("textbox").fill("here")
    page.wait_for_function("() => window.letGo")
    open_there(page, ids[1])
    let_go(page)
    expect(page.get_by_role("dialog").get_by_role("link", name="here", exact=False).first).to_be_visible()
