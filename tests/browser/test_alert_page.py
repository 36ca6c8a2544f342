"""The page of an alert in a real browser: it is opened from the list of the run, explained and acknowledged."""

import re

from playwright.sync_api import expect

from tests.live import eventually
from tests.sampled_responses import FELL, array, response

WORDS = {"pieces": ["<think>", "so", " tool", "!"]}


def paged(collector, *responses):
    """Return a run whose gradient is NaN from step 36 on, six steps after its entropy has jumped."""
    records = [
        {
            "step": step,
            "scalars": {"entropy/mean": 0.3 if step < 30 else 0.9, "grad/norm": 1.0 if step < 36 else "NaN"},
            "responses": list(responses),
        }
        for step in range(40)
    ]
    return collector.run(run="dying", records=records)


SCREENS = ((1440, 900), (390, 844))


def check_no_screen_is_too_narrow(visit):
    for width, height in SCREENS:
        visit.page.set_viewport_size({"width": width, "height": height})
        for part in ("document.documentElement", "...document.querySelectorAll('.tokens')"):
            narrow = f"[{part}].every((part) => part.scrollWidth <= part.clientWidth)"
            eventually(lambda narrow=narrow: visit.page.evaluate(narrow))


def test_an_alert_is_opened_explained_and_acknowledged(collector, visit):
    """The page names the moved signals, the token that fell and its rival; nothing is wider than the screen."""
    long = {"pieces": ["<think>", "so", " tool", "=" * 300]}
    rival = response(correct=False, reward=0.0, group=1, token_ids=array([7, 8, 9, 5], "int32"), **long)
    run_id = paged(collector, response(**FELL, **WORDS), rival)
    for alert in collector.get(f"/runs/{run_id}/alerts")["items"]:
        comments = f"{collector.url}/api/v1/alerts/{alert['id']}/comments"
        answer = collector.pool.request("POST", comments, json={"by": "n" * 100, "text": "t" * 300})
        assert answer.status == 200, answer.data
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    visit.page.locator(".alert", has_text="Non finite").get_by_text("What explains it").click()
    expect(visit.page.locator(".onsets li").first).to_contain_text("entropy/mean")
    expect(visit.page.locator(".leading .token.fell").first).to_have_text("<think>")
    expect(visit.page.locator(".resembling .response").first.locator(".shared")).to_have_count(3)
    check_no_screen_is_too_narrow(visit)
    visit.page.get_by_role("button", name="Acknowledge").click()
    expect(visit.page.locator(".alert-head")).to_contain_text("acknowledged by the dashboard")
    known = {alert["kind"]: alert["acknowledged_by"] for alert in collector.get("/alerts")["items"]}
    assert known["non_finite"] == "the dashboard"


def test_a_button_that_comes_back_does_not_take_the_focus(collector, visit):
    """An alert that becomes critical is to be acknowledged again; a key that scrolls would press the button unseen."""
    losses = [1 + step % 7 / 100 if step < 60 else 500 if step < 75 else 1e9 for step in range(90)]
    records = [{"step": step, "scalars": {"loss/policy": loss}} for step, loss in enumerate(losses)]
    run_id = collector.run(run="rises", records=records[:70])
    (alert,) = eventually(lambda: collector.get(f"/runs/{run_id}/alerts")["items"])
    visit.page.goto(f"{collector.url}/runs/{run_id}/alerts/{alert['id']}")
    button = visit.page.get_by_role("button", name="Acknowledge")
    button.press("Enter")
    expect(button).to_have_count(0)
    collector.run(run="rises", records=records[70:])
    expect(button).to_be_visible()
    assert visit.page.evaluate("document.activeElement === document.body")


def test_resolved_alerts_stay_open_while_others_are_resolved_and_lead_to_their_page(collector, visit):
    """The gradient is NaN at step 20 and at step 40. The page is not loaded anew by the link."""

    def train(first, last):
        scalars = [{"reward/mean": 0.5, "grad/norm": "NaN" if step in {20, 40} else 1.0} for step in range(first, last)]
        records = [{"step": step, "scalars": held} for step, held in zip(range(first, last), scalars, strict=True)]
        return collector.run(run="flaps", records=records)

    page = visit.page
    page.goto(f"{collector.url}/runs/{train(0, 36)}")
    page.get_by_text("1 resolved").click()
    page.locator(".past-alerts").get_by_text("Evidence").click()
    evidence = page.locator(".past-alerts .evidence")
    expect(evidence).to_contain_text("grad/norm")
    train(36, 60)
    expect(page.get_by_text("2 resolved")).to_be_visible()
    expect(evidence).to_have_count(2)
    expect(evidence.last).to_be_visible()
    expect(evidence.first).to_be_hidden()
    page.evaluate("window.isSame = true")
    page.locator(".past-alerts .alert").last.get_by_text("What explains it").click()
    expect(page.locator(".alert-head")).to_contain_text("from step 20")
    assert page.evaluate("window.isSame")


def test_without_responses_the_page_says_what_is_missing(collector, visit):
    """No strip is drawn, and the page names what is missing."""
    run_id = paged(collector)
    alert = collector.get("/alerts", severity="critical")["items"][0]
    visit.page.goto(f"{collector.url}/runs/{run_id}/alerts/{alert['id']}")
    expect(visit.page.locator(".missing")).to_contain_text("responses and tokens: needs rollouts with token ids")
    expect(visit.page.locator(".tokens")).to_have_count(0)
    expect(visit.page.locator(".forecast")).to_have_text("There is no forecast: the run has collapsed.")


def test_an_alert_that_is_not_there_is_reported(collector, visit):
    """A wrong address leads to a page with an explanation, and not to an empty page."""
    visit.page.goto(f"{collector.url}/runs/a/alerts/b")
    expect(visit.page.locator(".message")).to_contain_text("No alert has the id b")


def test_the_link_of_a_prometheus_alert_filters_the_fleet(collector, visit):
    """Project and run from the address: one row is left, also of a run that was archived and trains on."""
    for project, run in (("one", "well"), ("two", "dying"), ("one", "dying")):
        run_id = collector.run(project=project, run=run, records=[{"step": 0, "scalars": {"a": 1.0}}])
    collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{run_id}", json={"archived": True})
    visit.page.goto(f"{collector.url}/?project=one&run=dying&archived=1")
    expect(visit.page.locator(".fleet-row:visible")).to_have_count(1)
    expect(visit.page.locator(".fleet-row:visible")).to_contain_text("one")
    expect(visit.page.locator(".fleet-row:visible")).to_contain_text("archived")
    expect(visit.page.get_by_placeholder("Find a run")).to_have_value("dying")


def test_a_click_on_a_step_of_a_chart_leads_to_its_responses(collector, visit):
    """The link exists after a click on the vital signs or on a panel, at a desk and on a phone, and not before."""
    records = [
        {"step": step, "scalars": {"reward/mean": 0.5, "own/x": 1.0}, "responses": [response()]} for step in range(8)
    ]
    run_id = collector.run(run="clicked", records=records)
    page = visit.page
    charts = ("#run-figure .js-plotly-plot", '[data-panel="own/x"] .js-plotly-plot')
    for chart, (width, height) in zip(charts, SCREENS, strict=True):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{collector.url}/runs/{run_id}")
        expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
        page.locator('[data-panel="own/x"]').scroll_into_view_if_needed()
        page.wait_for_function(
            f"() => ['rlvitalsWatched', 'rlvitalsPanel'].some((mark) => document.querySelector('{chart}')?.[mark])"
        )
        expect(page.locator(".step-responses").first).to_be_hidden()
        page.evaluate(f"document.querySelector('{chart}').emit('plotly_click', {{ points: [{{ x: 5 }}] }})")
        link = page.get_by_role("link", name="Responses of step 5")
        expect(link).to_have_count(2)
        link.last.click()
        page.wait_for_url("**/responses?from=5&to=5")
        expect(page.locator(".response-table tbody th")).to_have_text(["step 5, correct"])


def test_a_long_response_is_drawn_further_by_a_click(collector, visit):
    """The page first draws the tokens around the one that fell most, and then those before and after, 300 a click."""
    count = 800
    changes = [0.0] * count
    changes[350] = -1.0
    long = response(
        length=count,
        actions=array([[0, count]], "int32"),
        logprobs=array([-0.5] * count, "float16"),
        displacements=array(changes, "float16"),
        token_ids=array(range(count), "int32"),
    )
    run_id = collector.run(run="long", records=[{"step": 3, "responses": [long]}])
    page = visit.page
    page.goto(f"{collector.url}/runs/{run_id}/responses")
    tokens = page.locator(".response .token")
    expect(tokens).to_have_count(300)
    page.get_by_role("button", name="200 tokens before").click()
    expect(tokens).to_have_count(500)
    expect(tokens.first).to_have_text("0")
    page.get_by_role("button", name="300 tokens after").click()
    expect(tokens).to_have_count(count)
    expect(page.locator(".response .cut")).to_have_count(0)


def test_responses_are_browsed_without_an_alert(collector, visit):
    """Filtered, coloured by another measure, and the members of a group side by side with their shared beginning."""
    rival = response(correct=False, reward=0.0, group=1, token_ids=array([7, 8, 9, 5], "int32"))
    run_id = collector.run(run="healthy", records=[{"step": 3, "responses": [response(**FELL, **WORDS), rival]}])
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    visit.page.locator("#run-header").get_by_role("link", name="Responses").click()
    expect(visit.page.locator(".responses-list .response")).to_have_count(2)
    table = visit.page.locator(".response-table tbody tr")
    expect(table.locator("th")).to_have_text(["step 3, incorrect", "step 3, correct"])
    table.locator("a").first.click()
    expect(visit.page.locator(".responses-list > :target .facts-line")).to_contain_text("incorrect")
    visit.page.locator("#responses-kind").get_by_text("longest").click()
    expect(table).to_have_count(0)
    expect(visit.page.locator("#responses-spread-card")).to_be_hidden()  # no response, no empty chart
    visit.page.locator("#responses-kind").get_by_text("every kind").click()
    expect(table).to_have_count(2)
    visit.page.locator("#responses-measure").get_by_text("log-probability").click()
    expect(visit.page.locator(".token[title*='ln p']").first).to_be_visible()
    expect(visit.page.locator(".response .token.answer")).to_have_count(2)
    bar = visit.page.locator("#responses-spread .barlayer .point path").first
    bar.click(force=True)  # Plotly lays a surface over its bars
    expect(table.locator("th")).to_have_text(["step 3, incorrect"])
    bar.click(force=True)
    expect(table).to_have_count(2)
    visit.page.locator("#responses-order").get_by_text("displaced beside resembling").click()
    expect(visit.page.locator(".members .facts-line").last).to_contain_text("% alike: 3 tokens of beginning shared")
    expect(visit.page.locator("#responses-spread-card")).to_be_hidden()
    visit.page.locator("#responses-order").get_by_text("by group").click()
    visit.page.wait_for_url("**/responses?order=group&colour=log-probability")
    expect(visit.page.locator("#responses-spread-card")).to_be_visible()
    visit.page.locator("#responses-spread-of").get_by_text("length").click()
    visit.page.wait_for_url("**&spread=length")
    expect(visit.page.locator("#responses-spread .xtitle")).to_have_text("length, tokens")
    expect(visit.page.locator(".members .response")).to_have_count(2)
    expect(visit.page.locator(".members .response").first.locator(".shared")).to_have_count(3)
    visit.page.locator("#responses-correct").get_by_text("incorrect").click()
    expect(visit.page.locator(".responses-list .response")).to_have_count(1)
    visit.page.get_by_label("From step").fill("4")
    visit.page.get_by_label("From step").press("Enter")
    expect(visit.page.locator(".responses-list")).to_contain_text("No response is stored for these steps")
    visit.page.get_by_label("To step", exact=True).fill("3")
    visit.page.get_by_label("To step", exact=True).press("Enter")
    expect(visit.page.locator(".responses-list")).to_contain_text("From step must be at most To step, got 4 and 3")
    visit.page.get_by_label("To step", exact=True).fill("1e")
    visit.page.get_by_label("To step", exact=True).press("Enter")
    expect(visit.page.locator(".responses-list")).to_contain_text(
        "To step must be a whole number from 0 to 2^53, got '1e'"
    )
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_button_that_draws_displacements_stands_where_other_cards_begin(collector, visit):
    """The text that explains it keeps the gap beside it, or below it on a phone."""
    run_id = collector.run(run="aligned", records=[{"step": 3, "responses": [response()]}])
    visit.page.goto(f"{collector.url}/runs/{run_id}/responses")
    for width, height in SCREENS:
        visit.page.set_viewport_size({"width": width, "height": height})
        button = visit.page.get_by_role("button", name="Draw displacement over questions").bounding_box()
        head = visit.page.get_by_role("heading", name="Sampled responses").bounding_box()
        text = visit.page.get_by_text("Nats per token by which").bounding_box()
        assert button["x"] == head["x"]
        beside, below = text["x"] - button["x"] - button["width"], text["y"] - button["y"] - button["height"]
        assert beside >= 14 or below >= 8


def test_tokens_are_coloured_by_the_gap_between_trainer_and_sampler(collector, visit):
    """Red and blue with the value on hover; where it was not observed, the line that sends it."""
    compared = response(**WORDS, mismatches=array([-0.75, 0.5, 0.0], "float16"))
    run_id = collector.run(run="compared", records=[{"step": 3, "responses": [compared, response(reward=0.0)]}])
    page = visit.page
    page.goto(f"{collector.url}/runs/{run_id}/responses")
    page.locator("#responses-measure").get_by_text("mismatch").click()
    page.wait_for_url("**/responses?colour=mismatch")
    note = page.locator(".measure-note")
    expect(note).to_contain_text("Mismatch is not observed for 1 of these 2 responses")
    expect(note.locator("code")).to_have_text("Rollouts(..., sampler_logprobs=sampler)")
    whole = page.locator(".response", has_text="<think>")
    expect(whole.locator(".token.fell")).to_have_attribute("title", "token 0, id 7: mismatch −0.75 nat")
    expect(whole.locator(".token.rose").first).to_have_attribute("title", "token 1, id 8: mismatch 0.5 nat")
    expect(page.locator(".token.unmeasured")).to_have_count(3)
    expect(page.locator(".token.unmeasured").first).to_have_attribute("title", "token 0, id 7: not observed")
    colours = {
        state: whole.locator(f".token.{state}").first.evaluate("token => getComputedStyle(token).backgroundColor")
        for state in ("fell", "rose")
    }
    assert len({*colours.values(), "rgba(0, 0, 0, 0)"}) == 3
    check_no_screen_is_too_narrow(visit)
    page.emulate_media(media="print")  # the whole table, and the responses that were not scrolled to
    expect(page.locator(".response-table .scroll")).to_have_css("max-height", "none")
    expect(page.locator(".responses-list > .explains").last).to_have_css("content-visibility", "visible")
    page.emulate_media(media="screen")


def check_forced_colours_and_paper(page):
    """In forced colours the mark of the severity stays and buttons have edges; paper has times, and no forms."""
    part = "(element, [part, name]) => getComputedStyle(element, part).getPropertyValue(name)"
    severity, button = page.locator(".alert-head .badge.severity"), page.get_by_role("button", name="Acknowledge")
    mark = eventually(lambda: severity.evaluate(part, ["::before", "background-color"]))  # the head may be drawn anew
    page.emulate_media(forced_colors="active")
    expect(severity).to_have_css("background-color", "rgb(255, 255, 255)")
    eventually(lambda: severity.evaluate(part, ["::before", "background-color"]) == mark)
    expect(button).to_have_css("border-top-style", "solid")
    page.emulate_media(forced_colors="none", media="print")
    expect(button).to_be_hidden()
    expect(page.get_by_label("Comment", exact=True)).to_be_hidden()
    at = page.locator(".history .since").first
    eventually(lambda: at.evaluate(part, ["::after", "content"]) == f'" ({at.get_attribute("title")})"')
    page.emulate_media(media="screen")


def test_an_alert_is_commented_silenced_and_opened_in_its_run(collector, visit):
    """The history has the opening, the comment as text, and the silence; the run opens zoomed to the alert.

    The keyboard alone reaches the choice of the time, whose name screen readers say with its value.
    """
    paged(collector)
    alert = collector.get("/alerts", severity="critical")["items"][0]
    visit.page.goto(f"{collector.url}/runs/{alert['run_id']}/alerts/{alert['id']}")
    history = visit.page.locator(".history")
    expect(history).to_contain_text(re.compile(r"opened at step \d+, (just now|\d+ s ago)"))
    visit.page.get_by_label("Comment", exact=True).fill("<b>The learning rate</b> 😀")
    silence = visit.page.get_by_role("button", name="Silence", exact=True)
    silence.dispatch_event("click", {"detail": 2})  # of a double click
    visit.page.get_by_role("button", name="Comment").click()
    expect(history.locator(".said").first).to_have_text("<b>The learning rate</b> 😀")
    assert collector.get("/silences")["items"] == []
    visit.page.get_by_label("Comment", exact=True).fill("known")
    expect(visit.page.get_by_role("button", name="Silence for 1 hour")).to_be_visible()
    visit.page.get_by_role("button", name="Comment").focus()
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press(" ")
    for option in range(3):  # Dash moves the focus after a pause, from where it is then
        expect(visit.page.locator(f".dash-dropdown-option[data-option-index='{option}'] input")).to_be_focused()
        visit.page.keyboard.press("ArrowDown" if option < 2 else "Enter")
    expect(visit.page.get_by_role("button", name="Silence for 1 day")).to_be_focused()
    visit.page.keyboard.press("Shift+Tab")
    expect(visit.page.get_by_role("button", name="Comment")).to_be_focused()
    silence.press("Enter")
    expect(history).to_contain_text("silenced by the dashboard")
    expect(visit.page.locator(".alert-head")).to_contain_text("silenced until")
    check_forced_colours_and_paper(visit.page)
    visit.page.get_by_role("link", name="Open the run at this moment").click()
    visit.page.wait_for_function(
        "(step) => { const graph = document.querySelector('#run-figure .js-plotly-plot');"
        " return graph && graph._fullLayout && graph._fullLayout.xaxis.range[1] === step + 50; }",
        arg=alert["opened_step"],
    )
    name = f"Chart of {alert['run']}-vital-signs; the button CSV saves its values"
    expect(visit.page.get_by_role("img", name=name)).to_be_visible()
