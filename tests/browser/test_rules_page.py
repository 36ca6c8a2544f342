"""The page of rules in a real browser: a rule is tried on a recorded run, saved, switched off, changed and deleted."""

import pytest
from playwright.sync_api import expect

from tests.live import eventually


@pytest.fixture
def collector(start_collector):
    """A collector with the dashboard, and a recorded run whose signal has markup in its name."""
    live = start_collector(dashboard="dashboard.app:attach")
    records = [{"step": step, "scalars": {"<img src=x onerror=alert(1)>": step / 10}} for step in range(20)]
    run_id = live.run(run="<i>recorded</i>", project="p", records=records)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 19)
    return live


def delete(page, name):
    """Delete a rule; the first question is answered by no."""
    button = page.get_by_role("button", name=f"Delete: {name}")
    page.once("dialog", lambda dialog: dialog.dismiss())
    with page.expect_event("dialog") as asked:
        button.click()
    assert asked.value.message == f"Delete the rule {name}? Its alerts are resolved. This cannot be undone."
    expect(button).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    button.click()


def test_a_rule_is_tried_saved_switched_changed_and_deleted(collector, visit):
    """Problems are stated in words, and names from outside are shown as text."""
    page = visit.page
    page.goto(f"{collector.url}/rules")
    expect(page.locator("#rules-list")).to_contain_text("There is no rule yet")
    page.get_by_role("button", name="Try it", exact=True).click()
    expect(page.locator("#rule-tried")).to_contain_text("Choose the recorded run")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-state")).to_have_text("Not saved. ")
    for field in ("name", "signal"):
        expect(page.locator(f"#rule-problem-{field}")).to_have_text("must be set")
    tops = page.evaluate(
        "['name', 'condition'].map((n) => document.getElementById(`rule-field-${n}`).closest('.field').offsetTop)"
    )
    assert tops[0] == tops[1]  # the controls of a row stand beside each other
    page.get_by_role("button", name="Empty the form").click()
    expect(page.locator(".field-problem:not(:empty)")).to_have_count(0)
    page.get_by_label("Name (lower-case").fill("Too high; for me")
    page.get_by_label("Signal", exact=True).fill("a")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-problem-name")).to_contain_text("digits and . _ -, the first a letter or a digit, got")
    page.get_by_label("Name (lower-case").fill("too-high")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-problem-value")).to_have_text("must be set with the operator >")
    expect(page.locator("#rule-problem-name")).to_be_empty()
    page.get_by_label("Signal", exact=True).fill("<img src=x onerror=alert(1)>")
    page.get_by_label("Value", exact=True).fill("0.95")
    page.get_by_label("For how long").fill("3")
    page.locator("#rule-tried-run").click()
    page.get_by_text("<i>recorded</i> · p").first.click()
    page.get_by_role("button", name="Try it", exact=True).click()
    tried = page.locator("#rule-tried")
    # Above 0.95 since step 10, so that it fires at step 13.
    expect(tried).to_contain_text("It would have fired once in 20 steps.")
    expect(tried).to_contain_text("Step 13, still firing at the end: <img src=x onerror=alert(1)> > 0.95 for 3 steps")
    assert collector.get("/rules")["items"] == []
    page.get_by_role("button", name="Save").click()
    row = page.locator("#rules-list tbody tr")
    expect(page.locator(".field-problem:not(:empty)")).to_have_count(0)
    expect(row).to_contain_text("too-high")
    expect(row).to_contain_text("<img src=x onerror=alert(1)> > 0.95 for 3 steps")
    page.get_by_role("button", name="Switch off: too-high").click()
    expect(page.get_by_role("button", name="Switch on: too-high")).to_be_visible()
    page.get_by_label("Value", exact=True).fill("7")
    page.get_by_role("button", name="Edit: too-high").click()
    expect(page.locator("#rule-form-title")).to_have_text("Change the rule too-high")
    expect(page.get_by_label("Value", exact=True)).to_have_value("0.95")
    page.get_by_label("Value", exact=True).fill("1.5")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("> 1.5 for 3 steps")
    (stored,) = collector.get("/rules")["items"]
    assert (stored["rule"]["value"], stored["rule"]["enabled"]) == (1.5, False)
    delete(page, "too-high")
    expect(page.locator("#rules-list")).to_contain_text("There is no rule yet")
    assert page.locator("main img").count() == 0


def test_a_form_that_was_filled_before_a_change_does_not_undo_it(collector, visit):
    """The second tab to save is refused with the name of the author. It can save twice after reading the rule again."""
    page = visit.page
    page.goto(f"{collector.url}/rules")
    page.get_by_label("Name (lower-case").fill("mine")
    page.get_by_label("Signal", exact=True).fill("a")
    page.get_by_label("Value", exact=True).fill("1")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-form-title")).to_have_text("Change the rule mine")
    with page.expect_popup() as opened:
        page.evaluate("window.open('/rules')")
    other = opened.value
    for tab in (other, page):
        if tab is other:
            tab.get_by_role("button", name="Edit: mine").click()
            expect(tab.locator("#rule-form-title")).to_have_text("Change the rule mine")
        tab.get_by_label("Value", exact=True).fill("2" if tab is other else "3")
        tab.get_by_role("button", name="Save").click()
    expect(other.locator("#rule-state")).to_contain_text("Saved: a > 2")
    expect(page.locator("#rule-state")).to_contain_text("was changed by the dashboard since it was read")
    other.close()
    page.get_by_role("button", name="Edit: mine").click()
    expect(page.get_by_label("Value", exact=True)).to_have_value("2")
    for value in ("4", "5"):
        page.get_by_label("Value", exact=True).fill(value)
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#rule-state")).to_contain_text(f"Saved: a > {value}")


def test_a_button_does_what_it_says_although_somebody_was_faster(collector, visit):
    """Switching off a rule twice leaves it off. A rule that somebody deleted or made appears when the tab is seen."""
    page = visit.page
    rule = {"name": "mine", "condition": "threshold", "signal": "a", "operator": ">", "value": 1.0}
    made = collector.pool.request("POST", f"{collector.url}/api/v1/rules", json={"rule": rule})
    assert made.status in {200, 201}, made.data
    address = f"{collector.url}/api/v1/rules/{made.json()['id']}"
    page.goto(f"{collector.url}/rules")
    switch = page.get_by_role("button", name="Switch off: mine")
    expect(switch).to_be_visible()
    assert collector.pool.request("PUT", address, json={"rule": rule | {"enabled": False}}).status == 200
    switch.click()
    expect(page.locator("#rule-state")).to_have_text("It was switched off already.")
    expect(page.get_by_role("button", name="Switch on: mine")).to_be_visible()
    assert collector.get("/rules")["items"][0]["rule"]["enabled"] is False
    assert collector.pool.request("DELETE", address).status == 200
    page.get_by_role("button", name="Delete: mine").click()
    expect(page.locator("#rule-state")).to_contain_text("Not deleted. ")
    expect(page.locator("#rules-list")).to_contain_text("There is no rule yet")
    assert collector.pool.request("POST", f"{collector.url}/api/v1/rules", json={"rule": rule}).status in {200, 201}
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.get_by_role("button", name="Switch off: mine")).to_be_visible()
    page.get_by_role("button", name="Edit: mine").click()
    expect(page.get_by_label("Value", exact=True)).to_have_value("1")
    page.get_by_label("Value", exact=True).fill("7")
    (held,) = collector.get("/rules")["items"]
    assert collector.pool.request("DELETE", f"{collector.url}/api/v1/rules/{held['id']}").status == 200
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-state")).to_contain_text("Somebody has deleted this rule meanwhile. Save again")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-state")).to_have_text("Saved: a > 7")
    assert [each["rule"]["value"] for each in collector.get("/rules")["items"]] == [7.0]


def test_a_rule_is_saved_with_the_numbers_that_its_form_shows(collector, visit):
    """A number is sent that is typed again after the form was filled anew; a text that is no number is refused."""
    page = visit.page
    rule = {"name": "mine", "condition": "threshold", "signal": "a", "operator": ">", "value": 5.0, "for_steps": 3}
    made = collector.pool.request("POST", f"{collector.url}/api/v1/rules", json={"rule": rule})
    assert made.status in {200, 201}, made.data
    page.goto(f"{collector.url}/rules")
    value, duration = page.get_by_label("Value", exact=True), page.get_by_label("For how long")
    for _ in range(2):
        page.get_by_role("button", name="Edit: mine").click()
        expect(value).to_have_value("5")
        value.fill("8")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-state")).to_have_text("Saved: a > 8 for 3 steps")
    page.get_by_role("button", name="Empty the form").click()
    expect(duration).to_have_value("")
    page.get_by_label("Name (lower-case").fill("other")
    page.get_by_label("Signal", exact=True).fill("b")
    value.fill("1,5")
    duration.fill("1e")
    page.get_by_role("button", name="Save").click()
    for field, text in (("value", "1,5"), ("for", "1e")):
        expect(page.locator(f"#rule-problem-{field}")).to_have_text(
            f"must be a number such as 3, 0.5 or 1e-3, got '{text}'; correct it"
        )
    value.fill("8")
    duration.fill("3")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rule-state")).to_have_text("Saved: b > 8 for 3 steps")


@pytest.mark.parametrize("visit", [(400, 800)], ids=["400x800"], indirect=True)
def test_the_page_fits_a_phone(collector, visit):
    """Nothing is wider than the screen."""
    visit.page.goto(f"{collector.url}/rules")
    expect(visit.page.get_by_role("button", name="Save")).to_be_visible()
    eventually(lambda: visit.page.evaluate("document.documentElement.scrollWidth") <= 400)
