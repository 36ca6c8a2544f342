"""A browser signs in through a dashboard in its own process, which passes the key on and the cookie back."""

import pytest
from playwright.sync_api import expect

from monitor_server.http_server.server import bind
from tests.browser.signing_in import oidc_settings, sign_in, sign_in_at_the_provider
from tests.browser.visibility import HIDDEN, SHOW
from tests.monitor_server.access.conftest import Guarded
from tests.monitor_server.conftest import ScriptedEngine
from tests.standalone_dashboard import serving_dashboard


@pytest.fixture
def guarded(start_collector):
    """A collector without a dashboard, which needs keys."""
    guarded = Guarded(start_collector(engine=ScriptedEngine, dashboard=""))
    guarded.key("admin", name="everything")
    return guarded


@pytest.fixture
def standalone(guarded):
    """The address of a dashboard that asks the collector over HTTP."""
    with serving_dashboard(guarded.live.url) as url:
        yield url


def test_a_browser_signs_in_and_out_through_a_dashboard_of_its_own(guarded, standalone, visit):
    """It shows only the runs of its project, the stream is live, and signing out removes the cookie."""
    guarded.send(guarded.secrets[0], run="one-of-ours", project="ours")
    guarded.send(guarded.secrets[0], run="one-of-theirs", project="theirs")
    reader = guarded.key("read", project="ours", name="anna")
    page = visit.page
    page.goto(f"{standalone}/sign-in")
    sign_in(page, reader)
    page.wait_for_url(f"{standalone}/")
    expect(page.get_by_text("one-of-ours").first).to_be_visible()
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    assert "one-of-theirs" not in page.content()
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    page.get_by_role("button", name="Sign out anna").click()
    page.wait_for_url("**/sign-in")
    assert page.context.cookies() == []


def test_a_wrong_key_is_refused_through_a_dashboard_of_its_own(guarded, standalone, visit):
    """The refusal is in words, and sets no cookie."""
    assert guarded.secrets
    visit.page.goto(f"{standalone}/sign-in")
    sign_in(visit.page, "rlv_wrong")
    expect(visit.page.get_by_role("alert")).not_to_be_empty()
    assert visit.page.context.cookies() == []
    visit.complaints.clear()  # the browser reports the answer 401


def test_a_page_leads_to_the_form_when_its_key_was_revoked_while_nobody_saw_it(guarded, standalone, visit):
    """The dashboard passes the refusal of its stream on, and opens none that holds the refusal."""
    page = visit.page
    run = guarded.send(guarded.secrets[0], run="ours")
    reader = guarded.key("read", name="anna")
    page.goto(f"{standalone}/sign-in")
    sign_in(page, reader)
    expect(page.locator(".fleet-row")).to_have_count(1)
    page.add_init_script(HIDDEN)
    page.goto(f"{standalone}/runs/{run}")
    expect(page.locator(".run-header h1")).to_have_text("ours")
    guarded.ask("DELETE", "/api/v1/keys/anna", guarded.secrets[0])
    page.evaluate(SHOW)
    page.wait_for_url("**/sign-in?next=*")
    visit.complaints.clear()  # the browser reports refused requests


def test_a_person_signs_in_at_the_provider_through_a_dashboard_of_its_own(start_collector, visit, provider, tmp_path):
    """The dashboard passes the browser on to the provider and back, where RLVITALS_PUBLIC_URL is its address."""
    listening = bind("127.0.0.1", 0)
    public = f"http://127.0.0.1:{listening.getsockname()[1]}"
    settings = oidc_settings(provider, tmp_path) | {"public_url": public, "dashboard": ""}
    guarded = Guarded(start_collector(engine=ScriptedEngine, **settings))
    with serving_dashboard(guarded.live.url, listening) as url:
        sign_in_at_the_provider(guarded, visit, url)
        visit.page.goto("about:blank")  # a request of the page to a dashboard that has ended would be a complaint
    # The page asks for its data before it leads to the form, and the browser reports the answer.
    visit.complaints[:] = [complaint for complaint in visit.complaints if "401" not in complaint]
