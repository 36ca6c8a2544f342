"""A browser signs in with a key, works, and signs out; without a key it shows only the form."""

from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from dashboard.page_delivery.own_files import PLOTLY
from tests.browser.accessibility import COLOUR_RULES, violations
from tests.browser.conftest import WAIT_MILLISECONDS
from tests.browser.signing_in import oidc_settings, sign_in, sign_in_at_the_provider
from tests.monitor_server.access.conftest import Guarded
from tests.monitor_server.conftest import ScriptedEngine


@pytest.fixture
def guarded(start_collector):
    """A collector with its dashboard, which needs keys."""
    guarded = Guarded(start_collector(engine=ScriptedEngine, dashboard="dashboard.app:attach"))
    guarded.key("admin", name="everything")
    return guarded


def violations_in_both_themes(visit):
    found = []
    for scheme, rules in (("light", None), ("dark", COLOUR_RULES)):
        visit.page.emulate_media(color_scheme=scheme)
        found += violations(visit, rules)
    return found


def test_a_browser_signs_in_and_out(guarded, visit):
    """The page that was asked for opens after the form; the cookie is hidden from scripts; signing out closes all."""
    run = guarded.send(guarded.secrets[0], run="ours", page=1.0)
    reader = guarded.key("operate", name="anna")
    visit.page.goto(f"{guarded.live.url}/runs/{run}")
    expect(visit.page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert violations_in_both_themes(visit) == []
    sign_in(visit.page, reader)
    visit.page.wait_for_url(f"**/runs/{run}")
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    expect(visit.page.locator("#run-figure .js-plotly-plot")).to_be_visible()
    expect(visit.page.get_by_role("button", name="Sign out anna")).to_be_visible()
    assert violations_in_both_themes(visit) == []
    (cookie,) = visit.page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert reader not in cookie["value"]
    assert visit.page.evaluate("document.cookie") == ""
    (alert,) = guarded.ask("GET", "/api/v1/alerts", reader).json()["items"]
    visit.page.goto(f"{guarded.live.url}/runs/{run}/alerts/{alert['id']}")
    visit.page.get_by_role("button", name="Acknowledge").click()
    expect(visit.page.locator(".alert-head").get_by_text("the dashboard (anna)")).to_be_visible()
    visit.page.route("**/api/v1/session", lambda route: route.fulfill(status=502))
    visit.page.get_by_role("button", name="Sign out anna").click()  # it stays signed in, and says so
    expect(visit.page.locator("#live-state")).to_have_attribute("data-unsent", "")
    visit.page.unroute("**/api/v1/session")
    visit.complaints.clear()  # the browser reports the answer 502
    visit.page.get_by_role("button", name="Sign out anna").click()
    visit.page.wait_for_url("**/sign-in")
    assert visit.page.context.cookies() == []
    visit.page.goto(guarded.live.url)
    visit.page.wait_for_url("**/sign-in?next=%2F")


def test_the_browser_keeps_nothing_of_what_was_read_before_signing_out(guarded, visit):
    """Neither a page nor an answer of the API: the next person would find it, also by the button Back."""
    run = guarded.send(guarded.secrets[0], run="ours", page=1.0)
    visit.page.goto(f"{guarded.live.url}/runs/{run}")
    sign_in(visit.page, guarded.key("read", name="anna"))
    visit.page.get_by_role("button", name="Sign out anna").click()
    visit.page.wait_for_url("**/sign-in")
    is_kept = "(path) => fetch(path, { cache: 'only-if-cached', mode: 'same-origin' }).then(() => true, () => false)"
    kept = [path for path in (f"/runs/{run}", "/api/v1/session", PLOTLY) if visit.page.evaluate(is_kept, path)]
    assert kept == [PLOTLY]
    visit.complaints.clear()  # the browser reports what it has not kept
    visit.page.go_back()
    visit.page.wait_for_url(f"**/sign-in?next=%2Fruns%2F{run}")


def test_the_bar_fits_every_width_beside_a_long_name(guarded, visit):
    """No width between a phone and a desk makes the page wider than the screen, or hides the name of a page."""
    reader = guarded.key("read", name="anna-maria.montgomery@example.org")
    visit.page.goto(f"{guarded.live.url}/rules")
    sign_in(visit.page, reader)
    expect(visit.page.get_by_role("button", name="Sign out anna-maria")).to_be_visible()
    hidden = "(nav) => nav.scrollWidth - nav.clientWidth"
    for width in (360, 380, 381, 430, 480, 481, 561, 601, 640, 680, 681, 700, 800, 801, 860, 900, 901):
        visit.page.set_viewport_size({"width": width, "height": 700})
        assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), width
        assert visit.page.locator(".bar-links").evaluate(hidden) == 0, width
        assert visit.page.locator("#sign-out").bounding_box()["width"] > 60, width


def test_every_page_that_is_open_leads_to_the_form_when_the_session_ends(start_collector, visit, provider, tmp_path):
    """Each returns to its place after the sign-in; requests that are still open meanwhile are no failure."""
    settings = oidc_settings(provider, tmp_path) | {"oidc_groups": "rl-team=admin"}
    guarded = Guarded(start_collector(engine=ScriptedEngine, dashboard="dashboard.app:attach", **settings))
    admin = guarded.key("admin", name="everything")
    run, page = guarded.send(admin), visit.page
    page.goto(f"{guarded.live.url}/settings")
    page.get_by_role("link", name="sign in with Example SSO").click()
    page.get_by_role("link", name="I am anna").click()
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    paths = ["/rules", f"/runs/{run}", f"/runs/{run}/responses", f"/compare?run={run}"]
    tabs = {path: page.context.new_page() for path in paths} | {"/settings": page}
    for path in paths:
        tabs[path].set_default_timeout(WAIT_MILLISECONDS)
        tabs[path].goto(f"{guarded.live.url}{path}")
        expect(tabs[path].locator("#live-state")).to_have_attribute("data-live", "live")
    assert guarded.ask("DELETE", "/api/v1/keys/anna@example.org", admin).status == 200
    for path, tab in tabs.items():
        tab.wait_for_url(f"**/sign-in?next={quote(path, safe='')}")
    visit.complaints.clear()  # the browser reports that the session was refused
    tab = tabs[f"/runs/{run}"]
    tab.get_by_role("link", name="sign in with Example SSO").click()
    tab.get_by_role("link", name="I am anna").click()
    tab.wait_for_url(f"{guarded.live.url}/runs/{run}")


def test_a_session_ends_with_its_key(guarded, visit):
    """Revoking a key signs out every browser that used it."""
    reader = guarded.key("read", name="anna")
    visit.page.goto(guarded.live.url)
    sign_in(visit.page, reader)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    assert guarded.ask("DELETE", "/api/v1/keys/anna", guarded.secrets[0]).status == 200
    visit.page.wait_for_url("**/sign-in?next=%2F")
    visit.complaints.clear()  # the browser reports that the stream was refused


def write_beside_another_tab(guarded, visit, title):
    """Sign in, write a title in the form of a run, and open another tab; return the run, the key and both pages."""
    run, reader = guarded.send(guarded.secrets[0]), guarded.key("operate", name="anna")
    page, other = visit.page, visit.page.context.new_page()
    other.set_default_timeout(WAIT_MILLISECONDS)
    page.goto(f"{guarded.live.url}/runs/{run}")
    sign_in(page, reader)
    page.get_by_text("Title, tags, notes, archive, delete").click()
    page.get_by_label("Title").fill(title)
    other.goto(f"{guarded.live.url}/rules")
    return run, reader, page, other


def test_what_is_written_in_a_form_stays_when_another_tab_signs_out(guarded, visit):
    """The page shows its forms alone, and sends the text after a sign-in; to another person it shows nothing of it.

    A link that is followed meanwhile leads to its page after the sign-in.
    """
    run, reader, page, other = write_beside_another_tab(guarded, visit, "written for ten minutes")
    other.get_by_role("button", name="Sign out anna").click()
    other.wait_for_url("**/sign-in")
    expect(page.locator("#live-state")).to_have_attribute("data-signed-out", "")
    expect(page.get_by_label("Title")).to_have_value("written for ten minutes")
    expect(page.get_by_label("Title")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_hidden()
    page.get_by_role("button", name="Save").click()
    sign_in(other, reader)
    other.wait_for_url(f"{guarded.live.url}/")
    expect(page.locator("#live-state")).not_to_have_attribute("data-signed-out", "")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    visit.complaints.clear()  # the browser reports that the requests were refused
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").get_by_text("Saved.")).to_be_visible()
    assert guarded.ask("GET", f"/api/v1/runs/{run}", reader).json()["title"] == "written for ten minutes"
    page.get_by_label("Title").fill("left behind")
    other.get_by_role("button", name="Sign out anna").click()
    other.wait_for_url("**/sign-in")
    expect(page.locator("#live-state")).to_have_attribute("data-signed-out", "")
    page.get_by_role("link", name="Rules").click()
    page.wait_for_url("**/rules")
    sign_in(other, reader)
    other.wait_for_url(f"{guarded.live.url}/")
    expect(page.get_by_role("heading", level=1, name="Rules")).to_be_visible()
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    page.go_back()
    page.get_by_text("Title, tags, notes, archive, delete").click()
    visit.complaints.clear()
    page.get_by_label("Title").fill("of anna")
    other.get_by_role("button", name="Sign out anna").click()
    other.wait_for_url("**/sign-in")
    expect(page.locator("#live-state")).to_have_attribute("data-signed-out", "")
    sign_in(other, guarded.key("read", name="bob"))
    expect(page.get_by_role("button", name="Sign out bob")).to_be_visible()
    expect(page.get_by_label("Title")).to_have_value("written for ten minutes")
    other.get_by_role("button", name="Sign out bob").click()
    page.wait_for_url(f"**/sign-in?next=%2Fruns%2F{run}")
    visit.complaints.clear()


def test_a_link_followed_while_signed_out_leads_to_its_page_though_an_older_answer_is_late(guarded, visit):
    """The page of the run, which is still drawn, is not made live again by it."""
    _, reader, page, other = write_beside_another_tab(guarded, visit, "left behind")
    expect(other.get_by_role("button", name="Sign out anna")).to_be_visible()
    chosen, answers = [], []

    def hold(route):
        if "...live.data" in route.request.post_data and not chosen:
            chosen.append(route)  # before the answer comes, because meanwhile other requests are handled
            answers.append(route.fetch())
        else:
            route.continue_()

    page.route("**/_dash-update-component*", hold)
    while not answers:  # a question asked before the page is complete may be dropped
        page.evaluate("window.dash_clientside.set_props('run-refresh', { data: Date.now() })")
        page.wait_for_timeout(500)
    other.get_by_role("button", name="Sign out anna").click()
    other.wait_for_url("**/sign-in")
    expect(page.locator("#live-state")).to_have_attribute("data-signed-out", "")
    with page.expect_response(lambda answer: "_dash-update" in answer.url and answer.status == 401):
        page.get_by_role("link", name="Rules").click()
    (route,), (late,) = chosen, answers
    with page.expect_response(lambda answer: "_dash-update" in answer.url and answer.status == 200):
        route.fulfill(response=late)
    sign_in(other, reader)
    other.wait_for_url(f"{guarded.live.url}/")
    expect(page.get_by_role("heading", level=1, name="Rules")).to_be_visible()
    visit.complaints.clear()


def test_the_option_of_the_command_that_makes_a_key_is_not_broken(guarded, visit):
    """No line ends between its hyphens: who copies it by eye would leave one out."""
    visit.page.goto(f"{guarded.live.url}/sign-in")
    option = visit.page.get_by_text("--scope read", exact=True)
    for width, height in ((1280, 800), (390, 844)):
        visit.page.set_viewport_size({"width": width, "height": height})
        assert option.evaluate("(shown) => shown.getClientRects().length") == 1
        assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_wrong_key_is_refused_in_words(guarded, visit):
    """The keys are an unknown one and one that may only send."""
    visit.page.goto(f"{guarded.live.url}/sign-in?next=//elsewhere.example/")
    sign_in(visit.page, "rlv_wrong")
    expect(visit.page.get_by_role("alert")).to_contain_text("not known")
    sign_in(visit.page, guarded.key("ingest"))
    expect(visit.page.get_by_role("alert")).to_contain_text("scope read")
    visit.complaints.clear()  # the browser reports each answer that is an error
    sign_in(visit.page, guarded.key("read"))
    visit.page.wait_for_url(f"{guarded.live.url}/")


@pytest.mark.parametrize("page", ["/.//elsewhere.example/", "/x/..//elsewhere.example/", "/%252e//elsewhere.example/"])
def test_a_path_that_becomes_another_site_is_not_opened(guarded, visit, page):
    """A browser removes the dots from a path; the remaining path would begin with two slashes and name another site."""
    visit.page.goto(f"{guarded.live.url}/sign-in?next={page}")
    sign_in(visit.page, guarded.key("read"))
    visit.page.wait_for_url(f"{guarded.live.url}/")


def test_without_keys_nobody_signs_in(start_collector, visit):
    """On the loopback nothing has changed: the pages are open, and there is no button."""
    live = start_collector(dashboard="dashboard.app:attach")
    visit.page.goto(live.url)
    expect(visit.page.locator("#live-state")).to_have_attribute("data-live", "live")
    expect(visit.page.locator("#sign-out")).to_be_hidden()


def test_a_person_signs_in_at_the_provider_and_out(start_collector, visit, provider, tmp_path):
    """The page that was asked for opens after the provider's, scripts see no cookie, and signing out closes all."""
    settings = oidc_settings(provider, tmp_path)
    guarded = Guarded(start_collector(engine=ScriptedEngine, dashboard="dashboard.app:attach", **settings))
    sign_in_at_the_provider(guarded, visit, guarded.live.url)


def test_a_person_without_a_group_is_told_why(start_collector, visit, provider, tmp_path):
    """On the page from which the sign-in was begun, so that it can be read in both themes."""
    live = start_collector(dashboard="dashboard.app:attach", **oidc_settings(provider, tmp_path))
    provider.person["groups"] = []
    visit.page.goto(live.url)
    visit.page.get_by_role("link", name="sign in with Example SSO").click()
    visit.page.get_by_role("link", name="I am anna").click()
    expect(visit.page.get_by_role("alert")).to_contain_text("none of your groups may use this collector")
    assert violations_in_both_themes(visit) == []
    assert visit.page.context.cookies() == []
    visit.page.goto(f"{live.url}/sign-in?refused=constructor")
    expect(visit.page.get_by_role("alert")).to_be_empty()


def test_a_page_that_the_browser_kept_works_after_somebody_has_signed_in_anew(guarded, kept):
    """The page stopped asking when its session had ended."""
    page = kept
    run = guarded.send(guarded.secrets[0], run="ours", page=1.0)
    page.goto(f"{guarded.live.url}/runs/{run}")
    sign_in(page, guarded.key("read"))
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    page.context.clear_cookies()
    page.get_by_role("navigation", name="pages").get_by_role("link", name="Settings").click()
    sign_in(page, guarded.key("read"))
    expect(page.locator(".settings-page")).to_be_visible()
    page.evaluate("() => void setTimeout(() => history.back())")
    page.wait_for_function("() => window.isKept !== undefined && !document.querySelector('.sign-in')")
    page.get_by_role("navigation", name="pages").get_by_role("link", name="Runs").click()
    expect(page.locator(".fleet-row .name")).to_have_text("ours")
