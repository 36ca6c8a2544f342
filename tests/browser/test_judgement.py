"""Saying after a run whether its alarms were right, in a real browser."""

import json

import pytest
from playwright.sync_api import expect

from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from tests.live import eventually

ATTACH = "dashboard.app:attach"
KIND = "loss_explosion"


@pytest.fixture
def died(tmp_path, start_collector):
    """A collector with a budget, and an ended run whose loss exploded."""
    file = tmp_path / "own.json"
    warranty = {"steps_per_page": 1000.0, "runs": 20, "steps": 2000, "longest": 20, "weight": 0.0}
    file.write_text(json.dumps({"id": "own", "detectors": DETECTOR_VERSION, "profiles": {}, "warranty": warranty}))
    collector = start_collector(dashboard=ATTACH, calibration=file)
    records = [
        {"step": step, "scalars": {"reward/mean": 0.5, "loss/policy": 0.01 if step < 30 else 2e5}} for step in range(40)
    ]
    run_id = collector.run(run="died", records=records, end="finished")
    eventually(lambda: collector.get(f"/runs/{run_id}")["last_step"] == 39)
    return collector, run_id


def expect_redrawn(page, place, change):
    """Wait until a part of the page is drawn anew after a change."""
    page.locator(f"{place} > *").first.evaluate("(part) => (window.gone = part)")
    change()
    page.wait_for_function("() => !window.gone.isConnected")


def test_text_and_focus_stay_while_the_page_is_drawn_anew(died, visit):
    """A person who types, or goes on by keyboard, does not begin again because of what others do."""
    collector, run_id = died
    page, tags = visit.page, iter("abc")

    def label():
        answer = collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{run_id}", json={"tags": [next(tags)]})
        assert answer.status == 200, answer.data

    page.goto(f"{collector.url}/runs/{run_id}")
    page.get_by_text("Were the alarms right?").click()
    entry = page.locator(".judgement li", has_text="loss explosion")
    entry.get_by_placeholder("failed at step").fill("31")
    entry.get_by_placeholder("note").fill("lat")
    page.keyboard.press("ArrowLeft")
    expect_redrawn(page, "#run-alerts", label)
    expect(entry.get_by_placeholder("note")).to_be_focused()
    page.keyboard.type("s")
    expect(entry.get_by_placeholder("note")).to_have_value("last")
    assert page.evaluate("window.rlvitals.hasWritten()")
    entry.get_by_role("button", name="Right").click()
    expect(entry.get_by_role("status")).to_have_text("Right, the run failed at step 31, says the dashboard: last")
    expect(entry.get_by_placeholder("note")).to_have_value("")
    page.keyboard.press("Tab")
    page.locator(".explain-link").last.focus()
    expect_redrawn(page, "#run-alerts", label)
    expect(page.locator(".explain-link").last).to_be_focused()
    expect(entry.get_by_placeholder("failed at step")).to_have_value("")


def test_alarms_are_judged_on_the_page_of_an_ended_run_and_of_the_alert(died, visit):
    """Right with the step of the failure on the run's page; then wrong on the alert's page. The newest counts.

    A judgement that the form does not show yet is shown before another one replaces it.
    """
    collector, run_id = died
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    visit.page.get_by_text("Were the alarms right?").click()
    entry = visit.page.locator(".judgement li", has_text="loss explosion")
    expect(entry.get_by_role("status")).to_have_text("Not judged yet.")
    entry.get_by_placeholder("failed at step").fill("31")
    entry.get_by_placeholder("note").fill("<b>NaN</b>")
    alarm = next(each["id"] for each in collector.get(f"/runs/{run_id}/alerts")["items"] if each["kind"] == KIND)
    address = f"{collector.url}/api/v1/alerts/{alarm}"
    anna = {"is_right": False, "by": "anna"}
    assert collector.pool.request("POST", f"{address}/judgement", json=anna).status == 200
    entry.get_by_role("button", name="Right").click()
    expect(entry.locator(".field-problem")).to_contain_text("Not judged. Somebody has judged this alarm meanwhile")
    expect(entry.locator(".when")).to_have_text("Wrong, says anna")
    entry.get_by_role("button", name="Right").click()
    expect(entry.locator(".when")).to_have_text("Right, the run failed at step 31, says the dashboard: <b>NaN</b>")
    left = visit.page.locator(".judgement li", has_text="Not judged yet.").count()
    title = f"Were the alarms right? ({left} below not judged)" if left else "The alarms below are judged"
    expect(visit.page.locator(".judgement summary")).to_have_text(title)
    (given,) = collector.get(f"/runs/{run_id}/judgements")["items"]
    assert (given["is_right"], given["failed_at"], given["kind"]) == (True, 31, "loss_explosion")
    visit.page.goto(f"{collector.url}/runs/{run_id}/alerts/{given['alert_id']}")
    form = visit.page.locator(".judgement")
    expect(form.get_by_role("status")).to_contain_text("Right, the run failed at step 31")
    bob = {"by": "bob"}
    for path, body in (("judgement", {"is_right": False} | bob), ("ack", bob)):
        assert collector.pool.request("POST", f"{address}/{path}", json=body).status == 200
    expect(form.get_by_role("status")).to_have_text("Wrong, says bob")
    form.get_by_placeholder("failed at step").fill("12")
    form.get_by_role("button", name="Wrong").click()
    expect(form.locator(".field-problem")).to_contain_text("must be left out of a judgement that an alarm was wrong")
    form.get_by_placeholder("failed at step").fill("")
    form.get_by_role("button", name="Wrong").click()
    expect(form.locator("[role=status].when")).to_have_text("Wrong, says the dashboard")
    expect(visit.page.locator(".history li").first).to_contain_text("judged wrong by the dashboard")
    assert [item["is_right"] for item in collector.get(f"/runs/{run_id}/judgements")["items"]] == [False]


def test_what_is_no_step_is_refused_below_the_field(died, visit):
    """Nothing is judged until the step is corrected or left out."""
    collector, run_id = died
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    visit.page.get_by_text("Were the alarms right?").click()
    entry = visit.page.locator(".judgement li", has_text="loss explosion")
    problem, right = entry.locator(".field-problem"), entry.get_by_role("button", name="Right")
    for text in ("-3", "2.5", "soon"):
        entry.get_by_placeholder("failed at step").fill(text)
        right.click()
        expect(problem).to_have_text(
            f"Not judged. The step must be a whole number from 0 to 2^53, got '{text}'; correct it, or leave the field "
            "empty."
        )
    assert collector.get(f"/runs/{run_id}/judgements")["items"] == []
    entry.get_by_placeholder("failed at step").fill("0")
    right.click()
    expect(entry.locator(".when")).to_have_text("Right, the run failed at step 0, says the dashboard")
    expect(problem).to_be_hidden()


def test_the_budget_of_false_pages_is_on_the_page_of_the_run(died, visit):
    """The page shows the promise, the spent budget, and that the run is longer than those behind the promise."""
    collector, run_id = died
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    budget = visit.page.locator(".budget")
    expect(budget).to_contain_text("one false page in 1,000 recorded steps, from 20 healthy runs with 2,000 steps")
    expect(budget).to_contain_text("1 page opened; the budget allows 2.00 up to now")
    expect(budget).to_contain_text("longer than every healthy run")
