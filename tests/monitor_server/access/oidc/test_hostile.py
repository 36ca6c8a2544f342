"""Hostile input of a person, a page, a network or a provider to a sign-in: it signs nobody in."""

import base64
import hmac
import json
import secrets
import socket
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from monitor_server.access.oidc import fetching
from monitor_server.access.oidc import provider as oidc_provider
from monitor_server.access.oidc.configuration import OidcConfiguration
from monitor_server.access.oidc.pending_sign_ins import (
    PendingSignIn,
    PendingSignInCookies,
    UsedSignIns,
    page_of_this_site,
)
from monitor_server.errors import SignInRefused, StartupError
from monitor_server.settings import Settings
from tests.monitor_server.access.oidc.conftest import START
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, KEY

INVALID = "/sign-in?refused=invalid"
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "second", "use": "sig"})


@pytest.fixture
def database_url(migrated_sqlite, tmp_path):
    """SQLite alone: nothing here reaches a database."""
    return migrated_sqlite(tmp_path)


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": ["another-client"]},
        {"aud": [CLIENT_ID, "another-client"]},
        {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"},
        {"aud": None},
        {"iss": "https://elsewhere.example"},
        {"iss": None},
        {"exp": None},
        {"exp": "never"},
        {"iat": None},
        {"iat": 9999999999},
        {"nbf": 9999999999},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
        {"sub": "a\0b"},
        {"at_hash": "wrong"},
    ],
    ids=lambda claims: ", ".join(f"{name}={str(value)[:20]}" for name, value in claims.items()),
)
def test_a_token_with_a_wrong_claim_signs_nobody_in(provider, browser, claims):
    """The signature of the token is right; None removes a claim."""
    provider.change = lambda given: {name: value for name, value in (given | claims).items() if value is not None}
    assert browser.sign_in() == INVALID
    assert browser.who() is None


def test_a_token_that_has_expired_signs_nobody_in_but_clocks_may_differ_by_a_minute(provider, browser):
    """The minute is for the clocks of two machines."""
    provider.change = lambda claims: claims | {"exp": claims["iat"] - 61, "iat": claims["iat"] - 300}
    assert browser.sign_in() == INVALID
    provider.change = lambda claims: claims | {"exp": claims["iat"] - 20, "iat": claims["iat"] + 20}
    assert browser.sign_in() == "/"


def signed(claims):
    """Return the token that the provider would send."""
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, KEY)


def with_another_signature(claims):
    """Return a token whose signature belongs to other claims."""
    head, body, _ = signed(claims).split(".")
    return f"{head}.{body}.{signed(claims | {'sub': 'another'}).split('.')[2]}"


def joined(*parts):
    """Return the parts of a token as it is sent."""
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def unsigned(claims):
    """Return a token that states that it needs no signature."""
    return joined(b'{"alg": "none", "kid": "first"}', json.dumps(claims).encode()) + "."


def signed_with_the_public_key(claims):
    """Return a token that takes the public key, which everybody has, for a shared secret."""
    return signed_by_hand(claims, KEY.as_pem(private=False))


def signed_with_the_client_secret(claims):
    """Return a token with a signature that everybody who has the client's secret can make."""
    return signed_by_hand(claims, CLIENT_SECRET.encode())


def signed_by_hand(claims, secret):
    """Return a token that is signed with a shared secret."""
    parts = b'{"alg": "HS256", "kid": "first"}', json.dumps(claims).encode()
    return joined(*parts, hmac.digest(secret, joined(*parts).encode(), "sha256"))


def signed_by_somebody_else(claims):
    """Return a token with a key that calls itself like the provider's."""
    key = RSAKey.import_key(OTHER_KEY.as_dict(private=True) | {"kid": "first"})
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, key)


def with_its_own_key(claims):
    """Return a token that contains the key for its own check."""
    header = {"alg": "RS256", "kid": "second", "jwk": OTHER_KEY.as_dict(private=False)}
    return jwt.encode(header, claims, OTHER_KEY)


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")  # the keys of the attacks are weak
@pytest.mark.parametrize(
    "sign",
    [
        unsigned,
        signed_with_the_public_key,
        signed_with_the_client_secret,
        signed_by_somebody_else,
        with_its_own_key,
        with_another_signature,
        lambda _: "not a token",
        lambda _: "a.b.c",
        lambda claims: signed(claims) + "." * 70_000,
    ],
    ids=["unsigned", "public key", "client secret", "somebody else", "own key", "changed", "text", "parts", "long"],
)
def test_a_token_that_the_provider_has_not_signed_signs_nobody_in(provider, browser, sign):
    """The signature that the token states does not matter."""
    provider.sign = sign
    assert browser.sign_in() in (INVALID, "/sign-in?refused=refused")
    assert browser.who() is None


def test_a_shared_secret_is_no_algorithm_even_where_the_provider_says_so(provider, browser):
    """A description that lists it changes nothing."""
    provider.description = {"id_token_signing_alg_values_supported": ["none", "HS256", "RS256"]}
    provider.sign = unsigned
    assert browser.sign_in() == INVALID
    provider.sign = signed_with_the_client_secret
    provider.keys = lambda: {"keys": [OctKey.import_key(CLIENT_SECRET.encode(), {"kid": "first"}).as_dict()]}
    assert browser.sign_in() == INVALID


@pytest.mark.parametrize(
    "other",
    [
        {"kty": "EC", "crv": "of tomorrow", "x": "AAAA", "y": "AAAA"},
        {"kty": "OKP", "crv": "X448", "x": "AAAA"},
        {"kty": "RSA"},
        OTHER_KEY.as_dict(private=False) | {"use": "of tomorrow"},
        {"kty": ["RSA"]},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"},
        OctKey.import_key(CLIENT_SECRET.encode()).as_dict(),
        7,
    ],
    ids=["curve", "size", "missing", "use", "malformed", "kind", "shared secret", "number"],
)
def test_a_key_that_cannot_be_read_costs_no_other_key(provider, browser, other):
    """Providers publish keys for other purposes and other algorithms beside those of ID tokens."""
    provider.keys = lambda: {"keys": [other, *KeySet([KEY]).as_dict()["keys"]]}
    assert browser.sign_in() == "/"


def test_a_person_may_have_an_id_as_long_as_the_standard_allows(provider, browser):
    """255 characters."""
    provider.person |= {"sub": "x" * 255}
    assert browser.sign_in() == "/"


def test_a_new_key_of_the_provider_is_looked_for_once(provider, browser, monkeypatch):
    """Providers change their keys; tokens with unknown keys do not make the collector ask again and again."""
    assert browser.sign_in() == "/"
    provider.keys = lambda: KeySet([KEY, OTHER_KEY]).as_dict()
    provider.sign = lambda claims: jwt.encode({"alg": "RS256", "kid": "second"}, claims, OTHER_KEY)
    with monkeypatch.context() as later:
        later.setattr(oidc_provider, "KEYS_SECONDS", 0.0)
        assert browser.sign_in() == "/"
    asked = provider.asked.count("/keys")
    provider.sign = signed_by_somebody_else
    for _ in range(3):
        assert browser.sign_in() == INVALID
    assert provider.asked.count("/keys") == asked == 2


def test_a_code_signs_in_once(browser, another_browser):
    """A reader of the address to which the browser came back can use it neither before nor afterwards."""
    callback = browser.to_callback()
    assert another_browser.open(callback).headers["Location"] == "/sign-in?refused=expired"
    kept = dict(browser.cookies)
    assert browser.open(callback).headers["Location"] == "/"
    assert browser.open(callback).headers["Location"] == "/sign-in?refused=expired"
    another_browser.cookies = kept  # even who has stolen the cookie of the sign-in as well
    assert another_browser.open(callback).headers["Location"] == "/sign-in?refused=expired"
    assert another_browser.who() is None


def test_a_sign_in_asks_the_provider_once(provider, browser):
    """The state is used up before the provider is asked, with any code and any answer."""
    callback = browser.to_callback()
    kept = dict(browser.cookies)
    code = callback.partition("code=")[2].partition("&")[0]
    assert browser.open(callback.replace(code, "guessed")).headers["Location"] == "/sign-in?refused=refused"
    for guess in (callback, callback.replace(code, "another")):
        browser.cookies = dict(kept)
        assert browser.open(guess).headers["Location"] == "/sign-in?refused=expired"
    assert provider.asked.count("/token") == 1
    assert browser.who() is None


@pytest.mark.usefixtures("still_limits")
@pytest.mark.parametrize("path", [START, f"{START}/callback"])
def test_an_address_signs_in_at_a_bounded_rate(provider, guarded, path):
    """More is answered 429 with words and the time to wait, and the provider is not asked."""
    for _ in range(31):
        answer = guarded.ask("GET", path)
        if answer.status != 303:
            break
    assert (answer.status, answer.json()["error"]) == (429, "TooManyRequests")
    assert "sign-ins" in answer.json()["detail"]
    assert int(answer.headers["Retry-After"]) >= 1
    assert provider.asked.count("/.well-known/openid-configuration") <= 1
    assert guarded.ask("GET", "/healthz").status == 200


def test_used_sign_ins_are_forgotten_when_they_are_over():
    """Until then each is used once; the rate of sign-ins bounds their number."""
    used = UsedSignIns()
    all_pending = [PendingSignIn.begin("/", now=float(number)) for number in range(3)]
    for pending in all_pending:
        assert used.use(pending, now=10.0)
        assert not used.use(pending, now=11.0)
    assert len(used) == 3
    another = PendingSignIn.begin("/", now=601.0)
    assert used.use(another, now=601.5)
    assert len(used) == 2


def test_nobody_is_signed_in_as_somebody_else_by_a_link(browser, another_browser):
    """The address of an attacker's sign-in does nothing in a browser that has begun another one, or none."""
    theirs = another_browser.to_callback()
    assert browser.open(theirs).headers["Location"] == "/sign-in?refused=expired"
    browser.to_callback()
    assert browser.open(theirs).headers["Location"] == "/sign-in?refused=expired"
    assert browser.who() is None


def test_a_code_of_one_sign_in_does_not_finish_another(browser, another_browser):
    """The provider holds it against the verifier, which never leaves the browser that has begun."""
    theirs = another_browser.to_callback().partition("code=")[2].partition("&")[0]
    mine = browser.to_callback()
    code = mine.partition("code=")[2].partition("&")[0]
    assert browser.open(mine.replace(code, theirs)).headers["Location"] == "/sign-in?refused=refused"
    assert browser.who() is None


def test_a_sign_in_is_over_after_ten_minutes():
    """Only a signed text is a sign-in."""
    cookies = PendingSignInCookies("secret")
    pending = PendingSignIn.begin("/runs/r", now=0.0)
    signed = cookies.sign([pending])
    assert cookies.read(signed, now=599.0) == [pending]
    assert cookies.read(signed, now=600.0) == []
    assert [pending.has_state(state) for state in (pending.state, "", pending.nonce)] == [True, False, False]
    assert PendingSignInCookies("another").read(signed, now=0.0) == []


def test_the_sign_ins_of_a_browser_fit_into_a_cookie():
    """The oldest are dropped, for any number of sign-ins and any length of their pages."""
    cookies = PendingSignInCookies("secret")
    for longest in (0, 990):
        begun = [PendingSignIn.begin("/" + secrets.token_hex(longest // 2), now=0.0) for _ in range(30)]
        signed = cookies.sign(begun)
        held = cookies.read(signed, now=0.0)
        assert len(signed) < 3_900
        assert held == begun[-len(held) :]
        assert 2 <= len(held) <= 8


@given(value=st.text())
def test_no_other_text_is_a_pending_sign_in(value):
    """The browser may send any text."""
    assert PendingSignInCookies("secret").read(value, now=0.0) == []


@given(page=st.text(alphabet=st.sampled_from("/\\ab.:@%?#\t\n ") | st.characters(), max_size=30))
def test_a_page_is_a_path_of_this_site(page):
    """A path has one slash, then neither a slash nor a backslash, and no character that browsers skip."""
    found = page_of_this_site(page)
    assert found.startswith("/")
    assert found[1:2] not in ("/", "\\")
    assert found.isascii()
    assert found.isprintable()
    assert found in (page, "/")


@pytest.mark.parametrize(
    "description",
    [
        {"issuer": "https://elsewhere.example"},
        {"authorization_endpoint": 7},
        {"authorization_endpoint": ""},
        {"authorization_endpoint": "https://["},
        {"authorization_endpoint": "https://sso.example/\ud800"},
        {"authorization_endpoint": "http://elsewhere.example/"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": None},
    ],
)
def test_a_provider_that_describes_itself_wrongly_is_not_asked(provider, browser, description):
    """It could be another one."""
    provider.description = description
    assert browser.open(START).headers["Location"] == "/sign-in?refused=provider"


@pytest.mark.parametrize("methods", [None, 7, [], "client_secret_basic"])
def test_a_provider_that_does_not_say_how_a_client_signs_in_is_asked_as_the_standard_says(provider, browser, methods):
    """This holds for any value in the place of the list of its methods."""
    provider.description = {"token_endpoint_auth_methods_supported": methods}
    assert browser.sign_in() == "/"


@pytest.mark.parametrize("name", ["token_endpoint", "jwks_uri"])
def test_nothing_is_sent_without_encryption_to_other_machines(provider, browser, name):
    """The client's secret least of all."""
    provider.description = {name: "http://elsewhere.example/"}
    assert browser.sign_in() == "/sign-in?refused=provider"


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token"])
@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"<html>", b"[" * 100_000, b'{"keys": [' + b"1," * 200_000 + b"1]}", b'{"keys": [{"kty": 7}]}'],
    ids=["empty", "a list", "a page", "nested", "huge", "malformed"],
)  # fmt: skip
def test_what_a_provider_answers_is_bounded_and_checked(provider, browser, path, raw):
    """An answer of 10 GB and an answer of nonsense each cause only a refused sign-in."""
    provider.raw[path] = raw
    assert refused(browser) in ("provider", "refused")
    assert browser.who() is None


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token"])
def test_a_provider_that_does_not_answer_costs_a_sign_in_and_nobody_else(provider, guarded, browser, path, monkeypatch):
    """A request to it ends with its time; the collector goes on reading and writing meanwhile."""
    monkeypatch.setattr(fetching, "SECONDS", 0.5)
    provider.held[path] = threading.Event()
    key = guarded.key("admin")
    asking = threading.Thread(target=lambda: guarded.send(key, run="meanwhile"))
    asking.start()
    assert refused(browser) == "provider"
    asking.join(60)
    assert not asking.is_alive()
    assert browser.who() is None


@pytest.mark.parametrize("head", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
def test_an_answer_that_drips_ends_with_the_time_of_a_request(monkeypatch, head):
    """This holds however often a byte of it arrives, and whether or not the connection is closed afterwards."""
    monkeypatch.setattr(fetching, "SECONDS", 0.5)
    has_ended = threading.Event()

    def drip(server):
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 1000000\r\n\r\n{")
            while not has_ended.wait(0.02):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        with pytest.raises(SignInRefused, match="did not answer within"):
            fetching.fetch_json("GET", f"http://127.0.0.1:{server.getsockname()[1]}/")
        has_ended.set()
        thread.join()


def test_no_redirect_of_the_provider_is_followed(provider, browser):
    """It could lead into the network of the collector."""
    provider.redirected["/keys"] = "http://127.0.0.1:1/"
    assert refused(browser) == "provider"


def test_a_provider_that_is_down_is_not_asked_by_every_visitor(provider, browser, monkeypatch):
    """For some seconds the first failure is the answer; then the provider is tried again."""
    provider.raw["/.well-known/openid-configuration"] = b"down"
    for _ in range(5):
        assert refused(browser) == "provider"
    assert len(provider.asked) == 1
    provider.raw.clear()
    monkeypatch.setattr(oidc_provider, "RETRY_SECONDS", 0.0)
    assert browser.sign_in() == "/"


def test_at_most_sixteen_wait_for_the_provider(provider, guarded):
    """Of seventeen people who sign in while it does not answer, one is answered 503, and the others wait."""
    does_answer = provider.held["/.well-known/openid-configuration"] = threading.Event()
    pool, address = guarded.live.pool, guarded.live.url + START
    with ThreadPoolExecutor(17) as people:
        asking = [people.submit(pool.request, "GET", address, redirect=False) for _ in range(17)]
        answer = next(as_completed(asking)).result()
        assert (answer.status, answer.json()["error"]) == (503, "Unavailable")
        assert [each.done() for each in asking].count(True) == 1
        does_answer.set()
    assert sorted(each.result().status for each in asking) == [303] * 16 + [503]
    assert provider.asked == ["/.well-known/openid-configuration"]


def test_what_the_provider_refuses_is_refused(browser):
    """Its words reach the log, and not the page."""
    callback = urlsplit(browser.to_callback())
    (state,) = parse_qs(callback.query)["state"]
    answer = browser.open(f"{callback.path}?error=%3Cscript%3E&state={state}")
    assert answer.headers["Location"] == "/sign-in?refused=refused"


def test_an_answer_that_names_another_provider_is_refused(browser):
    """RFC 9207: a mix-up of two providers."""
    callback = browser.to_callback()
    address = callback.partition("&iss=")[0] + "&iss=https%3A%2F%2Felsewhere.example"
    assert browser.open(address).headers["Location"] == "/sign-in?refused=refused"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"oidc_issuer": "http://sso.example.org"}, "RLVITALS_OIDC_ISSUER"),
        ({"oidc_issuer": "https://"}, "RLVITALS_OIDC_ISSUER"),
        ({"oidc_issuer": "http://[1"}, "RLVITALS_OIDC_ISSUER"),
        ({"oidc_issuer": ""}, "RLVITALS_OIDC_ISSUER"),
        ({"oidc_issuer": "", "oidc_groups": ""}, "RLVITALS_OIDC_ISSUER"),
        ({"oidc_issuer": "", "oidc_client_id": ""}, "RLVITALS_OIDC_ISSUER"),
        ({"oidc_client_id": ""}, "RLVITALS_OIDC_CLIENT_ID"),
        ({"oidc_client_secret_file": None}, "RLVITALS_OIDC_CLIENT_SECRET_FILE"),
        ({"oidc_groups": ""}, "RLVITALS_OIDC_GROUPS"),
        ({"oidc_groups": "team"}, "RLVITALS_OIDC_GROUPS"),
        ({"oidc_groups": "team=ingest"}, "RLVITALS_OIDC_GROUPS"),
        ({"oidc_groups": "team=read:"}, "RLVITALS_OIDC_GROUPS"),
        ({"oidc_groups": "=read"}, "RLVITALS_OIDC_GROUPS"),
        ({"oidc_groups": " ; "}, "RLVITALS_OIDC_GROUPS"),
    ],
)
def test_settings_that_are_half_given_end_the_start(settings, changed, named):
    """The error has the name of the variable."""
    with pytest.raises(StartupError, match=named):
        OidcConfiguration.of(Settings(**settings | changed))


def test_blanks_in_a_rule_are_no_part_of_a_group_or_a_project(settings):
    """No group of a provider and no project of a trainer has a blank at its end."""
    read = OidcConfiguration.of(Settings(**settings | {"oidc_groups": " team one = read : search ;ops =admin;"}))
    assert [(rule.group, rule.scope, rule.project) for rule in read.rules] == [
        ("team one", "read", "search"),
        ("ops", "admin", None),
    ]


def test_a_secret_that_is_missing_ends_the_start_and_no_error_shows_one(settings, tmp_path):
    """An empty file and none."""
    with pytest.raises(StartupError, match="cannot be read"):
        OidcConfiguration.of(Settings(**settings | {"oidc_client_secret_file": tmp_path / "none"}))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(StartupError, match="empty"):
        OidcConfiguration.of(Settings(**settings | {"oidc_client_secret_file": tmp_path / "empty"}))
    assert CLIENT_SECRET not in repr(OidcConfiguration.of(Settings(**settings)))


def refused(browser):
    """Sign in as far as it goes, and return why it was refused."""
    answer = browser.open(START)
    while "/sign-in?refused=" not in answer.headers["Location"]:
        answer = browser.open(answer.headers["Location"])
    return answer.headers["Location"].partition("refused=")[2]
