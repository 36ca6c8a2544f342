"""Title, tags, notes and deletion of a run in a real browser."""

import math
import re

import pytest
from playwright.sync_api import expect

from tests.live import eventually

# A browser that takes two seconds to draw the first charts of a comparison after their answer has arrived.
SLOW_FIRST_CHARTS = """
    const read = Response.prototype.json;
    Response.prototype.json = async function () {
        const answer = await read.call(this);
        if (answer?.response?.["compare-body"]) await new Promise((resolve) => setTimeout(resolve, 2000));
        return answer;
    };
"""


def open_form(collector, visit, run_id):
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    visit.page.get_by_text("Title, tags, notes, archive, delete").click()


def test_a_run_is_named_tagged_and_archived(collector, visit):
    """Labels are shown as text, and the fleet leaves an archived run out until it is asked for."""
    run_id = collector.run(run="plain", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    collector.run(run="other", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    open_form(collector, visit, run_id)
    visit.page.get_by_label("Title", exact=True).fill("<img onerror=alert(1)> 😀")
    visit.page.get_by_label("Tags, separated by commas").fill("عربي, 中文")
    visit.page.get_by_label("Notes").fill("Dies at\nstep 300.")
    visit.page.get_by_text("archived: left out").click()
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.locator("h1")).to_have_text("<img onerror=alert(1)> 😀")
    expect(visit.page.locator(".title .tag")).to_have_text(["عربي", "中文", "archived"])
    expect(visit.page.locator(".run-notes")).to_have_text("Dies at\nstep 300.")
    found = collector.get(f"/runs/{run_id}")
    assert (found["tags"], found["archived"]) == (["عربي", "中文"], True)
    visit.page.reload()
    expect(visit.page.locator(".run-notes")).to_have_text("Dies at\nstep 300.")
    visit.page.goto(collector.url)
    names = visit.page.locator(".fleet-row .name")
    expect(names).to_have_text(["other"])
    visit.page.locator("#fleet-archived").get_by_text("archived").click()
    expect(names.filter(has_text="onerror")).to_have_text(["<img onerror=alert(1)> 😀"])


def test_a_title_stands_on_every_page_that_shows_the_run(collector, visit):
    """The page of an alert, the responses and the comparison call the run by its title."""
    run_id = collector.run(run="sweep-17", records=[{"step": 0, "scalars": {"grad/norm": math.nan}}])
    eventually(lambda: collector.get(f"/runs/{run_id}/alerts")["items"])
    alert = collector.get(f"/runs/{run_id}/alerts")["items"][0]["id"]
    collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{run_id}", json={"title": "The long one"})
    for page in (f"/runs/{run_id}/alerts/{alert}", f"/runs/{run_id}/responses"):
        visit.page.goto(collector.url + page)
        expect(visit.page.locator(".crumbs")).to_contain_text("The long one")
        expect(visit.page).to_have_title(re.compile("The long one"))
    visit.page.goto(f"{collector.url}/compare?run={run_id}")
    expect(visit.page.locator(".compare-controls")).to_contain_text("The long one")


def test_a_run_is_deleted_once_it_is_confirmed(collector, visit):
    """The run is gone, and the fleet is shown."""
    run_id = collector.run(run="gone", end="finished", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    eventually(lambda: collector.get(f"/runs/{run_id}")["status"] == "finished")
    open_form(collector, visit, run_id)
    visit.page.once("dialog", lambda dialog: dialog.accept())
    visit.page.get_by_role("button", name="Delete run").click()
    expect(visit.page.locator("pre:visible")).to_be_visible()
    assert collector.get("/runs")["items"] == []


def test_what_somebody_else_has_written_meanwhile_is_kept(collector, visit):
    """Only the changed fields of an old form are saved, and none overwrites a newer text without a question."""
    run_id = collector.run(run="shared", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    open_form(collector, visit, run_id)
    address = f"{collector.url}/api/v1/runs/{run_id}"
    collector.pool.request("PATCH", address, json={"title": "theirs", "notes": "An hour of work."})
    expect(visit.page.locator("h1")).to_have_text("theirs")
    expect(visit.page.locator(".run-notes")).to_have_text("An hour of work.")
    visit.page.get_by_label("Tags, separated by commas").fill("mine")
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.locator("#label-state")).to_have_text("Saved.")
    expect(visit.page.get_by_label("Notes")).to_have_value("An hour of work.")
    found = collector.get(f"/runs/{run_id}")
    assert (found["title"], found["tags"], found["notes"]) == ("theirs", ["mine"], "An hour of work.")
    collector.pool.request("PATCH", address, json={"title": "theirs again"})
    expect(visit.page.locator("h1")).to_have_text("theirs again")
    visit.page.get_by_label("Title", exact=True).fill("mine")
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.locator("#label-state")).to_contain_text(
        "Not saved. Somebody has changed this meanwhile: title to"
    )
    assert collector.get(f"/runs/{run_id}")["title"] == "theirs again"
    visit.page.keyboard.press("Escape")
    visit.page.once("dialog", lambda dialog: dialog.dismiss())
    with visit.page.expect_event("dialog") as left:
        visit.page.keyboard.press("g")
    assert left.value.message == "Leave this page? The text that you have written in a form is lost."
    expect(visit.page.get_by_label("Title", exact=True)).to_have_value("mine")
    visit.page.once("dialog", lambda dialog: dialog.dismiss())
    with visit.page.expect_event("dialog") as left:
        visit.page.evaluate("setTimeout(() => location.reload())")
    assert left.value.type == "beforeunload"
    visit.page.get_by_role("button", name="Save", exact=True).click()
    expect(visit.page.locator("h1")).to_have_text("mine")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("/runs/{0}", "The collector has no such run any more"),
        ("/runs/{0}/alerts/{2}", "No such alert"),
        ("/runs/{0}/responses", "The collector has no such run any more"),
        ("/compare?run={0}&run={1}", "No run has the id"),
        ("/", "1 running"),
    ],
    ids=["run", "alert", "responses", "comparison", "fleet"],
)
def test_a_page_that_is_open_says_that_its_run_was_deleted(collector, visit, page, said):
    """The run was deleted in another tab or by somebody else, and no other event causes the page to be drawn again."""
    records = [{"step": step, "scalars": {"grad/norm": "NaN"}} for step in range(3)]
    ids = [collector.run(run=name, records=records) for name in ("gone", "kept")]
    alert = eventually(lambda: collector.get("/alerts", run_id=ids[0])["items"])[0]["id"]
    visit.page.goto(f"{collector.url}{page.format(*ids, alert)}")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    expect(visit.page.locator("#page")).not_to_contain_text(said)
    collector.pool.request("DELETE", f"{collector.url}/api/v1/runs/{ids[0]}?force=true")
    expect(visit.page.locator("#page")).to_contain_text(said)
    expect(visit.page.get_by_role("button", name="Comment")).to_have_count(0)


def test_the_page_of_a_run_that_was_deleted_warns_of_no_alert_and_offers_no_form(collector, visit):
    """Its title and its icon are those of a page without alerts."""
    run_id = collector.run(run="gone", records=[{"step": step, "scalars": {"grad/norm": "NaN"}} for step in range(3)])
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    expect(visit.page).to_have_title("▲ gone · rlvitals")
    collector.pool.request("DELETE", f"{collector.url}/api/v1/runs/{run_id}?force=true")
    expect(visit.page).to_have_title("gone · rlvitals")
    expect(visit.page.locator("link[rel=icon]")).to_have_attribute("href", "/assets/favicon.svg")
    expect(visit.page.get_by_text("Title, tags, notes, archive, delete")).to_be_hidden()


def test_a_comparison_without_one_of_its_runs_is_not_refreshed_before_it_is_drawn_anew(collector, visit):
    """An event about another of its runs comes while a message stands in the place of the charts."""
    ids = [collector.run(run=name, records=[{"step": 0, "scalars": {"a": 1.0}}]) for name in ("gone", "kept")]
    visit.page.goto(f"{collector.url}/compare?run={ids[0]}&run={ids[1]}")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    expect(visit.page.locator("#compare-legend")).to_be_visible()
    collector.pool.request("DELETE", f"{collector.url}/api/v1/runs/{ids[0]}?force=true")
    expect(visit.page.locator("#compare-body")).to_contain_text("The runs cannot be compared")
    collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{ids[1]}", json={"title": "still here"})
    expect(visit.page.locator("#page")).to_contain_text("No run has the id")


def test_a_deletion_is_not_missed_while_the_charts_of_a_comparison_are_being_drawn(collector, visit):
    """Their answer was read before the deletion and is drawn after its event has arrived; no other event follows."""
    ids = [collector.run(run=name, records=[{"step": 0, "scalars": {"a": 1.0}}]) for name in ("gone", "kept")]
    visit.page.add_init_script(SLOW_FIRST_CHARTS)
    with visit.page.expect_response(lambda answer: "compare-body" in (answer.request.post_data or "")):
        visit.page.goto(f"{collector.url}/compare?run={ids[0]}&run={ids[1]}")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    collector.pool.request("DELETE", f"{collector.url}/api/v1/runs/{ids[0]}?force=true")
    expect(visit.page.locator("#page")).to_contain_text("No run has the id")
