"""A provider, a collector that sends people to it, and a browser that is nothing but its cookies."""

from urllib.parse import urlsplit

import pytest

from tests.monitor_server.access.conftest import Guarded
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, running_provider

START = "/api/v1/session/oidc"
RULES = "rl-admins=admin; rl-team=operate:ours; rl-guests=read"


class Browser:
    """Follows the redirects of a sign-in by hand, and keeps cookies as a browser does."""

    def __init__(self, guarded):
        self.guarded = guarded
        self.cookies = {}

    def open(self, address, method="GET", **options):
        """Ask the collector or the provider for a page, without following where it leads."""
        pool, live = self.guarded.live.pool, self.guarded.live
        is_ours = not address.startswith("http") or address.startswith(live.url)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if is_ours else {}
        full = address if address.startswith("http") else live.url + address
        answer = pool.request(method, full, headers=headers, redirect=False, **options)
        for cookie in answer.headers.getlist("Set-Cookie") if is_ours else []:
            name, _, value = cookie.partition(";")[0].partition("=")
            if "Max-Age=0" in cookie:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        return answer

    def to_callback(self, next_="/"):
        """Begin a sign-in, and return the address that the provider sends the browser back to."""
        asked = self.open(f"{START}?next={next_}")
        assert asked.status == 303, asked.data
        return self.open(asked.headers["Location"]).headers["Location"]

    def sign_in(self, next_="/"):
        """Sign in, and return the page that the collector sends the browser to at last."""
        answer = self.open(self.to_callback(next_))
        assert answer.status == 303, answer.data
        return answer.headers["Location"]

    def who(self):
        """Return who is signed in, or None."""
        answer = self.open("/api/v1/session")
        return answer.json() if answer.status == 200 else None


@pytest.fixture
def provider():
    """The provider."""
    with running_provider() as running:
        yield running


@pytest.fixture
def settings(provider, tmp_path):
    """Settings of a collector that sends people to the provider."""
    secret = tmp_path / "client-secret"
    secret.write_text(CLIENT_SECRET + "\n")
    return {
        "oidc_issuer": provider.url,
        "oidc_name": "Example SSO",
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret_file": secret,
        "oidc_groups": RULES,
    }


@pytest.fixture
def guarded(start_collector, scripted, settings):
    """A collector without keys, where people sign in."""
    return Guarded(start_collector(engine=scripted, **settings))


@pytest.fixture
def browser(guarded):
    """A browser without cookies."""
    return Browser(guarded)


@pytest.fixture
def another_browser(guarded):
    """The browser of another person."""
    return Browser(guarded)


def path_and_query(address):
    """Return the path and the query of a browser's request, without the site."""
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
