"""The controls that choose runs, in a real browser: any run of the collector is found by the typed text."""

import httpx2
import pytest
from playwright.sync_api import expect

from dashboard.pages.run_choice import OFFERED


@pytest.fixture
def collector(start_collector):
    """A collector with the dashboard, and more runs than a control offers at once."""
    live = start_collector(dashboard="dashboard.app:attach")
    records = [{"step": step, "scalars": {"reward/mean": 0.1 * step}} for step in range(5)]
    first = live.run(run="the-oldest", project="p", records=records)
    assert httpx2.patch(f"{live.url}/api/v1/runs/{first}", json={"tags": ["needle"]}).is_success
    for number in range(OFFERED + 4):
        live.run(run=f"run-{number}", project="p", records=records)
    return live, first


def test_a_run_is_found_by_its_tag_and_stays_chosen_while_another_is_looked_for(collector, visit):
    """The run is older than all runs that are offered at first; the address that holds it shows its name again."""
    collector, first = collector
    page = visit.page
    page.goto(f"{collector.url}/compare")
    page.locator("#compare-runs").click()
    expect(page.get_by_text("run-20 · p")).to_be_attached()
    assert page.get_by_text("the-oldest").count() == 0
    page.keyboard.type("needle")
    page.get_by_text("the-oldest · p").click()
    page.wait_for_url(f"**/compare?run={first}")
    page.get_by_role("searchbox").fill("run-3")
    page.get_by_text("run-3 · p").click()
    page.wait_for_url(f"**/compare?run={first}&run=*")
    page.reload()
    expect(page.locator(".legend li")).to_have_count(2)
    expect(page.locator("#compare-runs")).to_contain_text("the-oldest · prun-3 · p")


def test_more_runs_than_can_be_told_apart_are_said_to_be_left_out(collector, visit):
    """The first twenty are drawn."""
    collector, _ = collector
    page = visit.page
    page.goto(f"{collector.url}/compare")
    page.locator("#compare-runs").click()
    page.get_by_role("button", name="Select All", exact=True).click()
    expect(page.locator("#compare-body")).to_contain_text(f"{OFFERED} runs are chosen; the first 20 are drawn.")
    expect(page.locator(".legend li")).to_have_count(20)


def test_a_rule_that_is_changed_keeps_its_run_and_says_which_is_gone(collector, visit):
    """One run is not offered at first, the other was deleted: the collector refuses the rule until it is replaced."""
    collector, first = collector
    rule = {"name": "slower", "condition": "comparison", "signal": "reward/mean", "operator": "<", "value": 0}
    runs = {"run_id": first, "other_run_id": collector.get("/runs")["items"][0]["id"]}
    rule |= runs | {"measure": "difference"}
    assert httpx2.post(f"{collector.url}/api/v1/rules", json={"rule": rule}).is_success
    assert httpx2.delete(f"{collector.url}/api/v1/runs/{runs['other_run_id']}?force=true").is_success
    page = visit.page
    page.goto(f"{collector.url}/rules")
    page.get_by_role("button", name="Edit: slower").click()
    expect(page.locator("#rule-field-run-id")).to_contain_text("the-oldest · p")
    expect(page.locator("#rule-field-other-run-id")).to_contain_text("not stored")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-problem-other-run-id")).to_contain_text("must be a run of the project 'p'")
    page.locator("#rule-field-other-run-id").click()
    page.keyboard.type("run-7")
    page.get_by_text("run-7 · p").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-state")).to_contain_text("Saved")
    (stored,) = collector.get("/rules")["items"]
    assert stored["rule"]["run_id"] == first
    assert stored["rule"]["other_run_id"] == collector.get("/runs", text="run-7")["items"][0]["id"]
