"""Somebody shows a view: open pages say so, and a tab whose reader pressed Follow opens it without a click."""

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.conftest import WAIT_MILLISECONDS
from tests.browser.signing_in import sign_in
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded

HOSTILE = "<img src=x onerror=alert(1)> \"'> مرحبا"
SIZES = {"phone": (360, 740), "desk": (1280, 800), "wall": (3840, 2160)}


@pytest.fixture
def collector(many_views, start_collector):  # noqa: ARG001 - it comes first
    """A collector with the dashboard mounted and two runs, without the limit of views."""
    live = start_collector(dashboard="dashboard.app:attach")
    for name in ("second", "first"):
        live.run(run=name, records=[{"step": step, "scalars": {"reward/mean": 0.5, "a": 1.0}} for step in range(5)])
    return live


def show(collector, address, **more):
    """Show a view, and return the answer."""
    answer = collector.pool.request("POST", f"{collector.url}/api/v1/view", json={"address": address} | more)
    assert answer.status == 200, answer.data
    return answer.json()


def open_fleet(collector, page):
    page.goto(collector.url)
    expect(page.locator(".fleet-row").first).to_be_visible()
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")


def run_address(collector, query=""):
    return f"/runs/{collector.get('/runs')['items'][0]['id']}{query}"


def test_a_page_says_what_is_shown_and_stays_where_it_is(collector, visit):
    """The page shows author and view as text, a link to it, and a button that removes it; a newer view replaces it."""
    page = visit.page
    open_fleet(collector, page)
    said, aside = page.locator("#shown-view [role=status]"), page.locator("#shown-view")
    expect(said).to_be_empty()
    shown = show(collector, run_address(collector, "?smoothing=0.9"), note=HOSTILE, by="<b>agent</b>")
    expect(said).to_contain_text("<b>agent</b> shows a page")
    expect(said).to_contain_text(HOSTILE)
    assert aside.locator("img, b").count() == 0
    assert page.url == f"{collector.url}/"
    assert page.evaluate("document.activeElement === document.body")
    found = {}
    for name, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            box = aside.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert box["y"] + box["height"] <= height
            found[name, scheme] = violations(visit)
    assert {place: complaints for place, complaints in found.items() if complaints} == {}
    page.set_viewport_size({"width": 1280, "height": 800})
    show(collector, "/compare", by="ann")
    expect(said).to_contain_text("ann shows a page")
    expect(said).not_to_contain_text(HOSTILE)
    aside.get_by_role("button", name="Close").click()
    expect(said).to_be_empty()
    assert aside.get_by_role("button").count() == 0
    show(collector, run_address(collector, "?smoothing=0.9"))
    aside.get_by_role("link", name="Open").click()
    page.wait_for_url(shown["url"])
    expect(page.locator("h1")).to_have_text("first")
    expect(said).to_be_empty()


def test_a_tab_that_follows_opens_what_is_shown_and_another_tab_does_not(collector, visit):
    """The tab follows from the page of a run too, and again from the opened page; it states what happened."""
    page = visit.page
    other = page.context.new_page()
    other.set_default_timeout(WAIT_MILLISECONDS)
    for each in (page, other):
        open_fleet(collector, each)
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "false")
    follow.press("Enter")
    expect(follow).to_have_attribute("aria-pressed", "true")
    for query in ("?signals=a", "?signals=reward"):
        shown = show(collector, run_address(collector, query), note=HOSTILE, by="ann")
        page.wait_for_url(shown["url"])
        expect(page.locator("#shown-view [role=status]")).to_contain_text("ann has opened this page in this tab")
        expect(page.locator("#shown-view .shown-note")).to_have_text(HOSTILE)
        expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
        expect(page.locator("#follow")).to_have_attribute("aria-pressed", "true")
    expect(other.locator("#shown-view [role=status]")).to_contain_text("ann shows a page")
    assert other.url == f"{collector.url}/"
    expect(other.locator("#follow")).to_have_attribute("aria-pressed", "false")
    page.locator("#shown-view").get_by_role("button", name="Follow").click()
    expect(page.locator("#follow")).to_have_attribute("aria-pressed", "false")
    show(collector, "/rules", by="bob")
    expect(page.locator("#shown-view [role=status]")).to_contain_text("bob shows a page")
    assert page.url == shown["url"]
    page.keyboard.press("Tab")
    page.locator("#shown-view").get_by_role("link", name="Open").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#shown-view [role=status]")).to_be_empty()


def test_a_tab_that_follows_is_not_taken_from_somebody_who_types(collector, visit):
    """The message waits beside the typed text."""
    page = visit.page
    open_fleet(collector, page)
    page.locator("#follow").click()
    page.locator("main .find input, main input.find").first.fill("fir")
    show(collector, "/compare", by="ann")
    expect(page.locator("#shown-view [role=status]")).to_contain_text("ann shows a page")
    # The browser has remembered the filter by then, and does not while the page is closed.
    page.wait_for_url(f"{collector.url}/?run=fir")


def test_a_tab_is_not_taken_from_what_somebody_has_written_into_a_form(collector, visit):
    """The tab also stays once the field is left, until the text is saved.

    On another page nothing is written, and the followed view is over.
    """
    page = visit.page
    open_fleet(collector, page)
    page.locator("#follow").click()
    page.goto(collector.url + run_address(collector))
    page.locator(".label-form summary").click()
    page.get_by_label("Notes").fill("found after an hour")
    page.get_by_label("Notes").evaluate("(field) => field.blur()")
    show(collector, "/compare", by="ann")
    expect(page.locator("#shown-view [role=status]")).to_contain_text("ann shows a page")
    expect(page.get_by_label("Notes")).to_have_value("found after an hour")
    assert page.evaluate("window.rlvitals.hasWritten()")
    page.get_by_label("Title").fill("short")
    page.get_by_label("Title").evaluate("(field) => (field.value = '')")  # as in a form that is drawn anew
    assert page.evaluate("window.rlvitals.hasWritten()")
    page.get_by_label("Notes").evaluate("(field) => (field.value = '')")
    assert not page.evaluate("window.rlvitals.hasWritten()")
    page.get_by_label("Title").fill("short")
    page.get_by_label("Title").fill("")
    assert not page.evaluate("window.rlvitals.hasWritten()")
    page.get_by_role("navigation", name="pages").get_by_role("link", name="Rules").click()
    expect(page.locator("#rules-list")).to_be_visible()
    show(collector, "/settings", by="bob")
    page.wait_for_url("**/settings")
    expect(page.locator("#shown-view [role=status]")).to_contain_text("bob has opened this page in this tab")
    page.get_by_role("navigation", name="pages").get_by_role("link", name="Rules").click()
    expect(page.locator("#rules-list")).to_be_visible()
    expect(page.locator("#shown-view [role=status]")).to_be_empty()
    run_id = collector.run(
        run="failing", records=[{"step": step, "scalars": {"reward/mean": "NaN"}} for step in range(30)]
    )
    eventually(lambda: collector.get("/alerts", run_id=run_id)["items"])
    alert = collector.get("/alerts", run_id=run_id)["items"][0]
    page.goto(f"{collector.url}/runs/{alert['run_id']}/alerts/{alert['id']}")
    page.get_by_label("Comment").fill("found after an hour")
    page.get_by_label("Comment").evaluate("(field) => field.blur()")
    show(collector, "/compare", by="ann")
    expect(page.locator("#shown-view [role=status]")).to_contain_text("ann shows a page")
    expect(page.get_by_label("Comment")).to_have_value("found after an hour")
    page.get_by_role("button", name="Comment").click()
    expect(page.get_by_text("Commented.")).to_be_visible()
    show(collector, "/compare", by="ann")
    page.wait_for_url("**/compare")


def test_a_view_that_is_shown_while_a_tab_changes_its_page_is_followed(collector, visit):
    """The tab receives events from the stream of the last page until that of the new page is open."""
    page = visit.page
    open_fleet(collector, page)
    page.locator("#follow").click()
    page.route("**/api/v1/stream*", lambda _: None)  # it is asked for, and is not answered
    with page.expect_request("**/api/v1/stream*"):
        page.get_by_role("navigation", name="pages").get_by_role("link", name="Rules").click()
    show(collector, "/settings", by="bob")
    page.wait_for_url("**/settings")


def test_the_page_that_is_open_is_shown_by_a_button(collector, visit):
    """The view has the choices of the page and a note, also where the address has unescaped characters."""
    page = visit.page
    other = page.context.new_page()
    other.set_default_timeout(WAIT_MILLISECONDS)
    open_fleet(collector, other)
    page.goto(collector.url + run_address(collector, "?signals=reward\\/mean|^a$"))
    page.get_by_role("button", name="Show", exact=True).click()
    dialog = page.get_by_role("dialog", name="Show this page")
    dialog.get_by_label("Note").fill(HOSTILE)
    assert violations(visit) == []
    dialog.get_by_label("Note").press("Enter")
    expect(dialog.get_by_role("status")).to_have_text("Shown to the pages that are open now.")
    expect(dialog.get_by_label("Note")).to_have_value("")
    expect(other.locator("#shown-view [role=status]")).to_contain_text(HOSTILE)
    other.locator("#shown-view").get_by_role("link", name="Open").click()
    expect(other.get_by_placeholder("Find signals")).to_have_value("reward\\/mean|^a$")
    dialog.get_by_role("button", name="Close").click()
    page.goto(f"{collector.url}/runs/nobody")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(dialog.get_by_role("status")).to_be_empty()
    dialog.get_by_role("button", name="Show").click()
    expect(dialog.get_by_role("status")).to_contain_text("Not shown. no run has the id 'nobody'")


def test_who_may_not_show_a_page_is_told_which_scope_it_needs(start_collector, visit):
    """Everybody has the button, and its answer names the scope that is missing."""
    guarded = Guarded(start_collector(dashboard="dashboard.app:attach"))
    guarded.key("admin")
    visit.page.goto(f"{guarded.live.url}/rules")
    sign_in(visit.page, guarded.key("read"))
    visit.page.get_by_role("button", name="Show", exact=True).click()
    dialog = visit.page.get_by_role("dialog", name="Show this page")
    dialog.get_by_role("button", name="Show").click()
    expect(dialog.get_by_role("status")).to_contain_text(
        "this needs a key with the scope operate, and this one has read"
    )


def test_a_page_does_not_believe_a_stream_that_names_another_site(collector, visit):
    """The collector accepts no such address, but a separate dashboard forwards the messages of another machine."""
    page = visit.page
    open_fleet(collector, page)
    page.locator("#follow").click()
    for address in (
        "//elsewhere.example/",
        "/\\elsewhere.example/",
        "javascript:alert(1)",
        "https://elsewhere.example/",
    ):
        page.evaluate("(address) => window.rlvitals.showView({ address, note: '', by: 'x', at: 0 })", address)
        expect(page.locator("#shown-view [role=status]")).to_be_empty()
    assert page.url == f"{collector.url}/"
