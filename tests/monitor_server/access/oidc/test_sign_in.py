"""People sign in at an OpenID Connect provider; the groups that it names decide their rights."""

import re
import time

import pytest

from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.access.conftest import Guarded
from tests.monitor_server.access.oidc.conftest import START, Browser


def entries(browser):
    """Return author and action of each entry of the audit log, the oldest first."""
    items = browser.open("/api/v1/audit").json()["items"]
    return [(item["by"], item["action"], item["detail"]) for item in reversed(items)]


def test_a_person_signs_in_and_may_do_what_the_group_allows(guarded, browser):
    """The page that was asked for opens; a project is a border as it is for keys; signing out ends it."""
    assert guarded.ask("GET", "/api/v1/runs").status == 401
    admin = guarded.key("admin")
    run, other = guarded.send(admin), guarded.send(admin, run="other", project="theirs")
    assert browser.sign_in(f"/runs/{run}?x=1") == f"/runs/{run}?x=1"
    who = {"name": "anna@example.org", "scope": "operate", "project": "ours", "by_key": True}
    assert browser.who() == who
    assert browser.open(f"/api/v1/runs/{run}").status == 200
    assert browser.open(f"/api/v1/runs/{other}").status == 404
    assert browser.open(f"/api/v1/runs/{run}", "DELETE").status == 403
    assert set(browser.cookies) == {"rlvitals_session"}
    assert browser.open("/api/v1/session", "DELETE").status == 200
    assert browser.who() is None


def test_two_tabs_sign_in_at_the_same_time(browser):
    """The order does not matter, and each leads to its own page; a third, which was left open, disturbs nobody."""
    first, second, third = (browser.to_callback(f"/runs/{name}") for name in ("one", "two", "three"))
    assert browser.open(first).headers["Location"] == "/runs/one"
    assert browser.open(third).headers["Location"] == "/runs/three"
    assert browser.open(third).headers["Location"] == "/sign-in?refused=expired"
    assert browser.open(second).headers["Location"] == "/runs/two"
    assert browser.who()["name"] == "anna@example.org"
    assert set(browser.cookies) == {"rlvitals_session"}


def test_the_cookies_are_hidden_from_scripts_and_bound_to_tls(guarded, browser):
    """Both of them, and nothing of a sign-in is kept by a cache."""
    asked = guarded.ask("GET", START, headers={"X-Forwarded-Proto": "https"})
    for part in ("__Host-rlvitals_oidc=", "HttpOnly", "SameSite=lax", "Secure", "Path=/;"):
        assert part in asked.headers["Set-Cookie"]
    assert "Path=/api/v1/session/oidc" in guarded.ask("GET", START).headers["Set-Cookie"]
    assert asked.headers["Cache-Control"] == "no-store"
    answer = browser.open(browser.to_callback())
    session = next(each for each in answer.headers.getlist("Set-Cookie") if each.startswith("rlvitals_session"))
    assert "HttpOnly" in session
    assert "SameSite=lax" in session


@sqlite_only
def test_behind_a_proxy_that_does_not_say_so_a_sign_in_is_for_tls_alone(start_collector, settings):
    """RLVITALS_PUBLIC_URL says that it speaks TLS. No cookie of a sibling host or of plain HTTP is read."""
    browser = Browser(Guarded(start_collector(public_url="https://rlvitals.example.org", **settings)))
    callback = browser.to_callback().replace("https://rlvitals.example.org", browser.guarded.live.url)
    assert set(browser.cookies) == {"__Host-rlvitals_oidc"}
    kept = dict(browser.cookies)
    # A sibling host may set the two with bytes that Python takes for spaces: only __Host- itself is kept from it.
    for foreign in ("rlvitals_oidc", "\x85__Host-rlvitals_oidc", "\xa0__Host-rlvitals_oidc"):
        browser.cookies = {foreign: kept["__Host-rlvitals_oidc"]}
        assert browser.open(callback).headers["Location"] == "/sign-in?refused=expired"
    browser.cookies = kept
    answer = browser.open(callback)
    assert answer.headers["Location"] == "/"
    for cookie in answer.headers.getlist("Set-Cookie"):
        assert cookie.startswith("__Host-rlvitals_")
        assert {"Secure", "Path=/", "HttpOnly"} <= {part.strip() for part in cookie.split(";")}
    assert set(browser.cookies) == {"__Host-rlvitals_session"}
    assert browser.who()["name"] == "anna@example.org"
    browser.cookies = {"rlvitals_session": browser.cookies["__Host-rlvitals_session"]}
    assert browser.who() is None


def test_who_has_no_group_of_the_rules_sees_nothing_and_is_told_why(provider, guarded, browser, caplog):
    """Deny by default: also without the claim, and with one of another form."""
    for groups in (["others"], [], None, {"rl-team": True}, [["rl-team"]], "rl-team2"):
        provider.person["groups"] = groups
        assert browser.sign_in() == "/sign-in?refused=no_group"
        assert browser.who() is None
        assert "rlvitals_session" not in browser.cookies
    assert "anna@example.org has no permission here" in caplog.text
    admin = guarded.key("admin")
    assert [key["name"] for key in guarded.ask("GET", "/api/v1/keys", admin).json()["items"]] == ["admin-None-0"]


def test_who_has_lost_every_group_is_signed_out_everywhere(provider, guarded, browser, another_browser):
    """The refused sign-in ends the sessions of the person in other browsers, and no session of another person."""
    guarded.key("admin")
    browser.sign_in()
    provider.person["groups"] = ["others"]
    assert another_browser.sign_in() == "/sign-in?refused=no_group"
    assert browser.who() is None
    provider.person |= {"sub": "u-2", "email": "maria@example.org", "groups": ["rl-admins"]}
    assert browser.sign_in() == "/"
    assert ("OpenID Connect", "key.revoke", "anna@example.org") in entries(browser)
    provider.person |= {"sub": "u-3", "groups": []}
    assert another_browser.sign_in() == "/sign-in?refused=no_group"
    assert browser.who()["name"] == "maria@example.org"


@sqlite_only
def test_the_first_rule_that_matches_counts(provider, browser, another_browser):
    """A single group may be a text; a change of groups applies to every browser of the person."""
    provider.person["groups"] = "rl-guests"
    browser.sign_in()
    assert (browser.who()["scope"], browser.who()["project"]) == ("read", None)
    provider.person["groups"] = ["rl-guests", "rl-admins"]
    another_browser.sign_in()
    assert another_browser.who()["scope"] == browser.who()["scope"] == "admin"


def test_what_people_do_stands_in_the_audit_log_by_their_names(provider, guarded, browser):
    """A sign-in itself, and every change."""
    provider.person["groups"] = ["rl-admins"]
    browser.sign_in()
    run = guarded.send(guarded.key("ingest"))
    answer = guarded.ask("POST", f"/api/v1/runs/{run}/reset", headers=cookie_of(browser), body={})
    assert answer.status == 200, answer.data
    seen = entries(browser)
    assert ("anna@example.org", "session.open", "admin, every project, by the group rl-admins") in seen
    assert ("anna@example.org", "run.reset") in [(by, action) for by, action, _ in seen]


def test_a_page_of_another_origin_can_do_nothing_with_the_session(guarded, browser):
    """The cookie of a key has the same protection."""
    run = guarded.send(guarded.key("ingest"))
    browser.sign_in()
    foreign = cookie_of(browser) | {"Origin": "https://elsewhere.example"}
    answer = guarded.ask("POST", f"/api/v1/runs/{run}/reset", headers=foreign, body={})
    assert (answer.status, answer.json()["error"]) == (403, "ForeignOrigin")


def test_a_session_is_revoked_like_a_key(guarded, browser, another_browser):
    """Every browser of the person is signed out at once; a person whom the provider still lets in may come again."""
    admin = guarded.key("admin")
    browser.sign_in()
    another_browser.sign_in()
    listed = {key["name"]: key for key in guarded.ask("GET", "/api/v1/keys", admin).json()["items"]}
    assert listed["anna@example.org"]["created_by"] == "OpenID Connect"
    assert guarded.ask("DELETE", "/api/v1/keys/anna@example.org", admin).status == 200
    assert browser.who() is another_browser.who() is None
    browser.sign_in()
    assert browser.who()["name"] == "anna@example.org"
    assert another_browser.who() is None


@sqlite_only
@pytest.mark.parametrize("seconds", [-3600.0, 3600.0], ids=["behind", "ahead"])
def test_people_sign_in_at_a_collector_whose_clock_is_not_that_of_its_machine(
    start_collector, settings, clock, seconds
):
    """Its machine slept, or its clock was set; the token is as old as the machine says."""
    clock.now = time.time() + seconds
    browser = Browser(Guarded(start_collector(clock=clock, **settings)))
    assert browser.sign_in() == "/"
    assert browser.who()["name"] == "anna@example.org"


@sqlite_only
def test_a_session_ends_with_its_time(start_collector, settings, clock):
    """The session ends whether or not the browser keeps the cookie."""
    browser = Browser(Guarded(start_collector(clock=clock, session_seconds=100.0, **settings)))
    browser.sign_in()
    clock.now += 98
    assert browser.who() is not None
    clock.now += 3
    assert browser.who() is None
    browser.sign_in()
    assert browser.who() is not None


@sqlite_only
def test_nobody_takes_the_name_of_another(provider, guarded, browser, another_browser):
    """A person is known by the provider's id, and not by a name that another person or a key has."""
    guarded.key("read", name="root")
    provider.person |= {"email": "root"}
    browser.sign_in()
    provider.person |= {"sub": "u-2"}
    another_browser.sign_in()
    names = {browser.who()["name"], another_browser.who()["name"]}
    assert len(names) == 2
    assert all(name.startswith("root (") for name in names)


@sqlite_only
@pytest.mark.parametrize("person", [{"email_verified": False}, {"email": "a\nb"}, {"email": 7}, {"email": "x" * 201}])
def test_a_name_that_could_be_anybodys_is_not_taken(provider, browser, person):
    """The provider's id stands for it."""
    provider.person |= person
    browser.sign_in()
    assert browser.who()["name"] == "u-1"


@sqlite_only
@pytest.mark.parametrize(
    "name",
    [
        "rlvitals", "Collector", "retention", "configuration", "the trainer", "rlv_0123", "0123456789abcdef",
        "night shift (anna@example.org)", "anna\u202egro.elpmaxe", "anna\x1b[2J", "a\nb", "\u3164", "x" * 10_000,
    ],
    ids=ascii,
)  # fmt: skip
def test_no_person_signs_as_the_collector_or_as_another(start_collector, provider, settings, name):
    """Neither the claim with the name nor the provider's id can do so; both are in the audit log and in histories."""
    browser = Browser(Guarded(start_collector(oidc_name_claim="preferred_username", **settings)))
    provider.person |= {"preferred_username": name, "groups": ["rl-admins"]}
    browser.sign_in()
    assert browser.who()["name"] == "u-1"
    assert {by for by, _, _ in entries(browser)} - {"configuration"} == {"u-1"}
    if len(name) <= 200:
        provider.person |= {"sub": name}
        browser.sign_in()
        assert re.fullmatch(r"person [0-9a-f]{8}|anna\\.*|a\\nb", browser.who()["name"])


@sqlite_only
def test_a_name_that_looks_like_that_of_another_is_marked(provider, browser, another_browser):
    """The names may differ in case, in width or in invisible characters."""
    browser.sign_in()
    for number, name in enumerate(["ANNA@example.org", "ａnna@example.org", "anna@example.org\ufe0f"]):
        provider.person |= {"sub": f"u-{number + 2}", "email": name}
        another_browser.sign_in()
        assert re.fullmatch(r".* \([0-9a-f]{8}\)", another_browser.who()["name"])


@sqlite_only
@pytest.mark.parametrize(
    "claims",
    [
        {"addresses": "anna@example.org", "email_verified": False},
        {"addresses": ["others", "Anna@Example.org"], "email_verified": "true"},
        {"addresses": "example.org", "email_verified": None},
        {"addresses": ["example.org"], "email_verified": 1},
    ],
)
def test_an_e_mail_address_that_is_not_verified_is_no_group(start_collector, provider, settings, caplog, claims):
    """Otherwise a person could write any address into an account and get its rights; the refusal names the remedy."""
    rules = "anna@example.org=admin; Anna@Example.org=admin; example.org=admin"
    given = settings | {"oidc_groups": rules, "oidc_groups_claim": "addresses"}
    browser = Browser(Guarded(start_collector(**given)))
    provider.person |= claims
    assert browser.sign_in() == "/sign-in?refused=unverified"
    assert browser.who() is None
    assert "let the provider verify the address and send email_verified as true" in caplog.text
    provider.person |= {"email_verified": True}
    browser.sign_in()
    assert browser.who()["scope"] == "admin"


@sqlite_only
def test_rules_for_the_claim_email_need_a_verified_address(start_collector, provider, settings):
    """The rule applies also where the address is a list, or where another group of the person has a rule."""
    given = settings | {"oidc_groups": "anna@example.org=admin", "oidc_groups_claim": "email"}
    browser = Browser(Guarded(start_collector(**given)))
    provider.person |= {"email_verified": False}
    for email in ("anna@example.org", ["anna@example.org"]):
        provider.person |= {"email": email}
        assert browser.sign_in() == "/sign-in?refused=unverified"
    provider.person |= {"email": "anna@example.org", "email_verified": True}
    browser.sign_in()
    assert browser.who()["scope"] == "admin"


@sqlite_only
def test_another_collector_with_the_same_secret_finishes_what_one_has_begun(
    start_collector, provider, settings, guarded, browser
):
    """Behind one address any of them may get the browser that comes back."""
    callback = browser.to_callback()
    other = Browser(Guarded(start_collector(**settings)))
    other.cookies = browser.cookies
    path = callback.partition(guarded.live.url)[2]
    provider.codes[next(iter(provider.codes))]["redirect_uri"] = (
        other.guarded.live.app.state.collector.oidc.configuration.redirect_uri
    )
    assert other.open(path).headers["Location"] == "/"
    assert other.who()["name"] == "anna@example.org"
    eventually(lambda: Browser(guarded).who() is None)


@pytest.mark.parametrize(
    "page", ["//elsewhere.example", "/\\elsewhere.example", "https://elsewhere.example", "/%0a/x", "/\t/x"]
)
@sqlite_only
def test_no_sign_in_leads_to_another_site(browser, page):
    """The first page opens instead."""
    assert browser.sign_in(page.replace("\\", "%5C").replace("\t", "%09")) == "/"


@sqlite_only
def test_without_the_settings_nobody_signs_in_by_it(start_collector):
    """The routes answer like paths that nothing serves, and the form has no button for it."""
    guarded = Guarded(start_collector())
    assert guarded.ask("GET", START).status == 404
    assert guarded.ask("GET", f"{START}/callback").status == 404
    assert guarded.ask("GET", "/api/v1/session/methods").json() == {"oidc": None}


def test_the_sign_in_page_learns_the_name_of_the_provider(guarded):
    """The page needs no key for it."""
    assert guarded.ask("GET", "/api/v1/session/methods").json() == {"oidc": "Example SSO"}


@sqlite_only
def test_a_collector_that_only_receives_needs_a_key_as_well(start_collector, settings):
    """The settings close every role, also those in which nobody signs in."""
    guarded = Guarded(start_collector(role="ingest", **settings))
    batch = {"schema_version": 1, "run": "r", "records": [{"step": 0}]}
    assert guarded.ask("POST", "/api/v1/ingest", body=batch).status == 401
    assert guarded.ask("GET", "/metrics").status == 401


def cookie_of(browser):
    """Return the browser's session as a header."""
    return {"Cookie": f"rlvitals_session={browser.cookies['rlvitals_session']}"}


@sqlite_only
def test_a_person_is_no_key_that_expires(guarded, browser):
    """A session ends after hours, and causes no alert; no metric names a person."""
    browser.sign_in()
    reader = guarded.key("read", name="scraper")
    status = guarded.ask("GET", "/api/v1/status", reader).json()
    assert status["keys"] == {"valid": 1, "expiring": []}
    assert "anna@example.org" not in guarded.ask("GET", "/metrics", reader).data.decode()
