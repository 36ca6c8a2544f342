"""A real browser on real pages: Debian's chromium, which must be there where CI=true, and else may be missing.

Debian's `chromium-headless-shell` is taken where it is installed: it is the same engine without the windows, menus and
extensions of the desktop's browser, and a page costs about a third less computing.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.live import LiveCollector
from tests.oidc_provider import OidcProvider, running_provider
from tests.ports import reserved_port

# A page of a few seconds of computing waits for its turn on a busy machine.
WAIT_MILLISECONDS = 120_000
# No machine of the tests has a graphics card, and an emulated one costs more than drawing without it.
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
# A page lives for seconds: it gains nothing from threads that compile, and less from garbage that is collected early.
ARGUMENTS.append("--js-flags=--single-threaded --min-semi-space-size=64 --max-semi-space-size=64")
# Pages of this machine are drawn by one process, which has compiled their scripts.
ARGUMENTS.append("--process-per-site")
# A resource that the policy blocks is an error of the page.
BLOCKED = "Content Security Policy: blocked"
REPORT_BLOCKED = f"""document.addEventListener('securitypolicyviolation', (event) =>
    console.error(`{BLOCKED} ${{event.violatedDirective}} ${{event.blockedURI}}`))"""


def pytest_collection_modifyitems(items):
    """Mark all tests of this folder."""
    for item in items:
        if "tests/browser" in str(item.path):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser, once a module: while it lives, Playwright's event loop forbids every other in this thread."""
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if path is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("chromium is needed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def profile(chromium: Browser) -> Iterator[BrowserContext]:
    """One browser profile for each module: a page reuses the scripts that earlier pages have loaded and compiled.

    An empty page keeps the process that draws the pages; `visit` removes what a test has stored.
    """
    context = chromium.new_context()
    empty = context.new_page()
    empty.route("**", lambda route: route.fulfill(body=""))
    empty.goto("http://127.0.0.1/")
    yield context
    context.close()


@pytest.fixture(scope="session")
def collector_port() -> Iterator[int]:
    """One port for the collectors of all tests: a script at another address would be loaded and compiled again."""
    with reserved_port() as port:
        yield port


@pytest.fixture
def collector(start_collector: Callable[..., LiveCollector]) -> LiveCollector:
    """A collector with the dashboard mounted and an empty store."""
    return start_collector(dashboard="dashboard.app:attach")


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    """An OpenID Connect provider whose page waits for a click."""
    with running_provider() as running:
        running.asks_person = True
        yield running


@dataclass
class Visit:
    """A page, with its errors and its requests to other machines while it was open."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def read_panels_again(self) -> None:
        """Let the page of a run ask for its panels again, and wait for the answer."""
        with self.page.expect_response(lambda answer: "workspace-drawn" in (answer.request.post_data or "")):
            self.page.evaluate("window.rlvitals.panels.again()")


@pytest.fixture(params=[(1440, 900)], ids=["1440x900"])
def visit(profile: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A page on which every error, all that a policy blocks and every request to another machine fail the test.

    Cookies and storage are empty.
    """
    width, height = request.param
    page = profile.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.set_default_timeout(WAIT_MILLISECONDS)
    expect.set_options(timeout=WAIT_MILLISECONDS)
    page.add_init_script(REPORT_BLOCKED)
    seen = Visit(page)
    origins: set[str] = set()

    def note(message):
        if message.type in {"error", "warning"}:
            seen.complaints.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: seen.complaints.append(f"{error} {error.stack}"))
    page.on("request", lambda sent: seen.outside.append(sent.url) if is_outside(sent.url) else None)
    page.on("framenavigated", lambda frame: origins.add("{0.scheme}://{0.netloc}".format(urlsplit(frame.url))))
    yield seen
    empty, *opened = profile.pages
    for left in opened:
        left.close()
    profile.clear_cookies()
    devtools = profile.new_cdp_session(empty)
    for origin in origins:
        devtools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    devtools.detach()
    assert seen.complaints == []
    assert seen.outside == []


@pytest.fixture
def kept(chromium: Browser) -> Iterator[Page]:
    """A page of the whole Chromium that keeps pages for the button Back, which Playwright forbids by default."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is needed: apt-get install chromium")
    without = ["--disable-back-forward-cache"]
    browser = chromium.browser_type.launch(executable_path=path, args=ARGUMENTS, ignore_default_args=without)
    page = browser.new_page()
    page.set_default_timeout(WAIT_MILLISECONDS)
    expect.set_options(timeout=WAIT_MILLISECONDS)
    page.add_init_script("addEventListener('pageshow', (event) => (window.isKept = event.persisted))")
    yield page
    browser.close()


def is_outside(url: str) -> bool:
    """Say whether a request left this machine."""
    return not url.startswith(("http://127.0.0.1:", "data:", "blob:"))
