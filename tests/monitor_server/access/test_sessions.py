"""The cookie of a sign-in: signed, ended by time, by the key and by signing out; and users whom a proxy names."""

import socket
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.identification import Identification, TrustedProxies, caller_of
from monitor_server.access.keys.known_keys import KnownKeys
from monitor_server.access.oidc.persons import Person, open_session
from monitor_server.access.sessions import Delegation, read_session, sign_session
from monitor_server.errors import StartupError
from monitor_server.settings import Settings
from monitor_server.store.repositories.api_keys import StoredKey
from tests.databases import sqlite_only
from tests.monitor_server.access.conftest import Guarded

KEY = StoredKey(
    id="0123456789abcdef", name="k", scope="read", project=None, hash=b"h", session_secret=b"s" * 32, created_at=0.0,
    created_by="a test",
)  # fmt: skip


def signed_in(guarded, key):
    """Sign in and return the cookie as a browser sends it."""
    answer = guarded.ask("POST", "/api/v1/session", body={"key": key})
    assert answer.status == 200
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie
    return {"Cookie": cookie.partition(";")[0]}


def test_a_cookie_stands_for_its_key(guarded):
    """The cookie has exactly the rights of the key; a foreign origin has none with it."""
    admin, key = guarded.key("admin"), guarded.key("operate", project="ours", name="anna")
    run = guarded.send(admin, project="ours")
    other = guarded.send(admin, run="other", project="theirs")
    cookie = signed_in(guarded, key)
    assert guarded.ask("GET", f"/api/v1/runs/{run}", headers=cookie).status == 200
    assert guarded.ask("GET", f"/api/v1/runs/{other}", headers=cookie).status == 404
    assert guarded.ask("DELETE", f"/api/v1/runs/{run}", headers=cookie).status == 403
    who = {"name": "anna", "scope": "operate", "project": "ours", "by_key": True}
    assert guarded.ask("GET", "/api/v1/session", headers=cookie).json() == who
    foreign = cookie | {"Origin": "https://elsewhere.example"}
    answer = guarded.ask("POST", f"/api/v1/runs/{run}/reset", headers=foreign, body={})
    assert (answer.status, answer.json()["error"]) == (403, "ForeignOrigin")
    out = guarded.ask("DELETE", "/api/v1/session", headers=cookie)
    assert 'rlvitals_session=""' in out.headers["Set-Cookie"]
    assert '__Host-rlvitals_session=""' in out.headers["Set-Cookie"]
    guarded.ask("DELETE", "/api/v1/keys/anna", admin)
    assert guarded.ask("GET", f"/api/v1/runs/{run}", headers=cookie).status == 401


@sqlite_only
def test_a_sign_in_of_many_bytes_is_refused_unread(guarded):
    """Nobody needs a key to send one, so that its body is read only as far as a key is long."""
    guarded.key("admin")
    answer = guarded.ask("POST", "/api/v1/session", body={"key": "k" * 5_000})
    assert (answer.status, answer.json()["error"]) == (413, "BodyTooLarge")


@sqlite_only
def test_a_cookie_ends_after_its_time(start_collector, clock):
    """It ends whether or not the browser keeps it; where the browser speaks TLS, the cookie is for TLS alone."""
    guarded = Guarded(start_collector(clock=clock, session_seconds=100.0))
    key = guarded.key("read")
    cookie = signed_in(guarded, key)
    clock.now += 98
    assert guarded.ask("GET", "/api/v1/runs", headers=cookie).status == 200
    clock.now += 3
    assert guarded.ask("GET", "/api/v1/runs", headers=cookie).status == 401
    for forwarded in ("https", "HTTPS", "https, http"):
        answer = guarded.ask("POST", "/api/v1/session", body={"key": key}, headers={"X-Forwarded-Proto": forwarded})
        assert "Secure" in answer.headers["Set-Cookie"]
        assert answer.headers["Set-Cookie"].startswith("__Host-rlvitals_session=")


@sqlite_only
@pytest.mark.parametrize("public_url", ["https://rlvitals.example.org", "http://rlvitals.example.org", ""])
def test_a_public_address_of_https_makes_cookies_for_tls_alone(start_collector, public_url):
    """This holds also where the proxy does not state its protocol; a cookie by the other name then signs nobody in."""
    guarded = Guarded(start_collector(public_url=public_url))
    answer = guarded.ask("POST", "/api/v1/session", body={"key": guarded.key("read")})
    name, _, value = answer.headers["Set-Cookie"].partition(";")[0].partition("=")
    is_https = public_url.startswith("https")
    assert ("Secure" in answer.headers["Set-Cookie"]) == is_https
    assert name == ("__Host-rlvitals_session" if is_https else "rlvitals_session")
    other = "rlvitals_session" if is_https else "__Host-rlvitals_session"
    assert guarded.ask("GET", "/api/v1/runs", headers={"Cookie": f"{name}={value}"}).status == 200
    assert guarded.ask("GET", "/api/v1/runs", headers={"Cookie": f"{other}={value}"}).status == 401


@sqlite_only
@pytest.mark.parametrize("foreign", ['prefs={"theme":"dark"}', 'a="b', "a@b=1", "flag", "path=/x", "x=a b", "x=\xe9"])
def test_cookies_of_other_programs_sign_nobody_out(start_collector, foreign):
    """A browser sends the cookies of every port of a host, also those that break the rules of cookies."""
    guarded = Guarded(start_collector())
    cookie = signed_in(guarded, guarded.key("read"))["Cookie"]
    for sent in (f"{foreign}; {cookie}", f"{cookie}; {foreign}"):
        assert guarded.ask("GET", "/api/v1/runs", headers={"Cookie": sent}).status == 200


@given(value=st.text(), place=st.integers(0, 200), replacement=st.characters())
def test_no_other_text_is_a_cookie(value, place, replacement):
    """Neither an arbitrary text nor a signed one with one changed character is a cookie."""
    signed = sign_session(KEY, until=1000.0)

    def read(text, now=0.0):
        return read_session(text, find={KEY.id: KEY}.get, now=now)

    assert read(signed) is KEY
    assert read(signed, now=1000.0) is None
    assert read(value) is None
    assert read(f"{KEY.id}~{value}") is None
    changed = signed[:place] + replacement + signed[place + 1 :]
    assert changed == signed or read(changed) is None


@given(text=st.text())
def test_no_other_text_is_a_delegation(text):
    """The token of a caller is valid for a minute in the process that has signed it."""
    now = [0.0]
    delegation = Delegation(lambda: now[0])
    caller = Caller(name="anna", scope=Scope.OPERATE, project="ours", key_id="k")
    signed = delegation.sign(caller)
    assert delegation.read(signed) == caller
    assert delegation.read(text) is None
    assert Delegation(lambda: 0.0).read(signed) is None
    now[0] = 60.0
    assert delegation.read(signed) is None


@sqlite_only
def test_a_delegation_has_the_rights_that_its_key_has_now(store):
    """A new sign-in of a person may lower the rights of the person's key."""
    keys, delegation = KnownKeys(store, clock=lambda: 2.0), Delegation(lambda: 2.0)
    identification = Identification(keys=keys, delegation=delegation, clock=lambda: 2.0)
    person = Person(subject="https://id.example 7", name="anna", scope=Scope.ADMIN, project=None, group="team")
    for rights in ({"scope": Scope.ADMIN}, {"scope": Scope.READ, "project": "ours"}):
        with store.write() as repositories:
            key = open_session(repositories, replace(person, **rights), until=100.0, now=1.0)
        keys.read()
        if key.scope is Scope.ADMIN:
            headers = Headers({"Authorization": f"Bearer {delegation.sign(caller_of(key))}"})
    assert identification.identify(headers, "") == caller_of(key)


@sqlite_only
def test_a_proxy_that_is_trusted_names_the_user(start_collector, scripted):
    """Its header counts from its address alone; the user has the rights of the setting, on the dashboard too."""
    proxy = {"trusted_header": "X-User", "trusted_proxies": "127.0.0.1", "trusted_scope": "operate"}
    guarded = Guarded(start_collector(engine=scripted, dashboard="dashboard.app:attach", **proxy))
    user = {"X-User": "anna"}
    assert guarded.ask("GET", "/api/v1/runs").status == 401
    assert guarded.ask("GET", "/api/v1/runs", headers=user).status == 200
    assert guarded.ask("GET", "/api/v1/keys", headers=user).status == 403
    session = guarded.ask("GET", "/api/v1/session", headers=user).json()
    assert (session["name"], session["by_key"]) == ("anna", False)
    run = guarded.send(guarded.key("ingest"), page=1.0)
    (alert,) = guarded.ask("GET", "/api/v1/alerts", headers=user).json()["items"]
    acknowledged = guarded.ask("POST", f"/api/v1/alerts/{alert['id']}/ack", headers=user, body={}).json()
    assert (acknowledged["run_id"], acknowledged["acknowledged_by"]) == (run, "anna")
    update = {
        "output": "page.children", "outputs": {"id": "page", "property": "children"},
        "inputs": [
            {"id": "address", "property": "pathname", "value": f"/runs/{run}"},
            {"id": "asked-address", "property": "data", "value": None},
        ],
        "state": [{"id": "address", "property": "href", "value": f"{guarded.live.url}/runs/{run}"}],
        "changedPropIds": ["address.pathname"],
    }  # fmt: skip
    drawn = guarded.ask("POST", "/_dash-update-component", headers=user, body=update)
    assert drawn.status == 200, drawn.data
    assert "run-header" in drawn.data.decode()


@sqlite_only
def test_a_proxy_may_name_a_user_in_every_script_and_pass_its_own_token_on(start_collector, caplog):
    """Proxies send UTF-8; a token that is no key of the collector does not lock the user out."""
    guarded = Guarded(start_collector(trusted_header="X-User", trusted_proxies="127.0.0.1"))
    for name in ("Jürgen Große", "Łukasz", "李雷"):
        user = {"X-User": name.encode(), "Authorization": "Bearer eyJhbGciOiJSUzI1NiJ9.e30.x"}
        assert guarded.ask("GET", "/api/v1/session", headers=user).json()["name"] == name
    forged = {"X-User": "anna", "Authorization": "Bearer rlv_unknown"}
    assert guarded.ask("GET", "/api/v1/session", headers=forged).status == 401
    assert guarded.ask("GET", "/api/v1/session", headers={"X-User": "configuration"}).status == 401
    assert "a proxy has named a user who is not admitted" in caplog.text


@sqlite_only
@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs sockets that accept IPv4 and IPv6")
@pytest.mark.parametrize("trusted", ["127.0.0.0/8", "::ffff:127.0.0.1"])
def test_a_proxy_of_ipv4_is_trusted_also_where_the_collector_listens_on_ipv6(start_collector, trusted):
    """A socket on ``::`` names it by an IPv6 address, which was in no network of IPv4."""
    live = start_collector(host="::", trusted_header="X-User", trusted_proxies=trusted)
    assert Guarded(live).ask("GET", "/api/v1/session", headers={"X-User": "anna"}).json()["name"] == "anna"


@sqlite_only
def test_what_follows_a_body_names_no_user(start_collector):
    """A proxy removes its header from clients' requests, and may forward the same name behind a body in chunks."""
    live = start_collector(trusted_header="X-User", trusted_proxies="127.0.0.1")
    host, port = live.url.removeprefix("http://").split(":")
    head = b"GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(head + b"2\r\n{}\r\n0\r\nX-User: anna\r\n\r\n")
        assert client.recv(1_024).startswith(b"HTTP/1.1 401 ")


@sqlite_only
def test_a_header_from_elsewhere_is_not_believed(start_collector):
    """It is believed neither from another address nor from an address that a header claims."""
    proxy = {"trusted_header": "X-User", "trusted_proxies": "10.1.2.0/24"}
    guarded = Guarded(start_collector(**proxy))
    for forwarded in ({}, {"X-Forwarded-For": "10.1.2.3"}, {"Forwarded": "for=10.1.2.3"}):
        assert guarded.ask("GET", "/api/v1/runs", headers={"X-User": "anna"} | forwarded).status == 401


def test_two_headers_of_a_proxy_name_nobody():
    """A proxy that appends its header leaves the client's own as the first."""
    proxies = TrustedProxies.of(Settings(trusted_header="X-User", trusted_proxies="127.0.0.1"))
    sent = [(b"x-user", b"admin"), (b"x-user", b"anna")]
    assert proxies.user(Headers(raw=sent[1:]), "127.0.0.1") == "anna"
    assert proxies.user(Headers(raw=sent), "127.0.0.1") is None


@pytest.mark.parametrize(
    "settings",
    [{"trusted_header": "X-User"}, {"trusted_proxies": "10.0.0.1"}, {"trusted_header": "X", "trusted_proxies": "here"}],
)
def test_a_proxy_that_is_half_described_ends_the_start(tmp_path, settings):
    """A header without addresses would be believed from anybody."""
    from monitor_server.app import create_app  # noqa: PLC0415

    with pytest.raises(StartupError, match="RLVITALS_TRUSTED_PROXIES"):
        create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db", **settings))


@pytest.mark.parametrize("header", ["X User", "X-User:", "Üser"])
def test_a_text_that_is_no_header_ends_the_start(header):
    """No request could have it, so nobody would be signed in."""
    with pytest.raises(StartupError, match="RLVITALS_TRUSTED_HEADER must be the name of a header"):
        TrustedProxies.of(Settings(trusted_header=header, trusted_proxies="127.0.0.1"))
