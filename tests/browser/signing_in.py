"""Signs a browser in, with a key or through a provider."""

from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET


def sign_in(page, key):
    """Fill in the form and send it."""
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def oidc_settings(provider, folder):
    """Return settings of a collector that sends people to a provider."""
    (folder / "client-secret").write_text(CLIENT_SECRET)
    return {
        "oidc_issuer": provider.url,
        "oidc_name": "Example SSO",
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret_file": folder / "client-secret",
        "oidc_groups": "rl-team=operate",
    }


def sign_in_at_the_provider(guarded, visit, url):
    """Sign in through the provider and out again, at the dashboard of an address."""
    run = guarded.send(guarded.key("ingest"))
    page = visit.page
    page.goto(f"{url}/runs/{run}")
    link = page.get_by_role("link", name="sign in with Example SSO")
    expect(link).to_be_visible()
    assert violations(visit) == []
    link.click()
    page.get_by_role("link", name="I am anna").click()
    page.wait_for_url(f"{url}/runs/{run}")
    expect(page.locator("#live-state")).to_have_attribute("data-live", "live")
    assert [cookie["httpOnly"] for cookie in page.context.cookies()] == [True]
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out anna@example.org").click()
    page.wait_for_url("**/sign-in")
    assert page.context.cookies() == []
