"""A small OpenID Connect provider on a free port of this machine, with a real signing key and ways to misbehave."""

import base64
import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

__all__ = ["CLIENT_ID", "CLIENT_SECRET", "OidcProvider", "running_provider"]

CLIENT_ID, CLIENT_SECRET = "rlvitals", "the client's secret"
KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})


@dataclass
class OidcProvider:
    """The answers of the provider; a test changes its attributes.

    Attributes:
        url: Its address, which is its issuer.
        person: The claims of the person who signs in.
        change: Changes the claims of an ID token before they are signed.
        sign: Signs the claims.
        keys: The keys that it shows.
        description: Changes its description.
        raw: Other answers of paths, byte for byte.
        redirected: Other targets of paths.
        held: Paths that answer only once their event is set.
        asked: The requested paths.
        asks_person: Whether its page waits for a click.
    """

    url: str = ""
    person: dict[str, Any] = field(default_factory=lambda: dict(PERSON))
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
    sign: Callable[[dict[str, Any]], str] = lambda claims: jwt.encode({"alg": "RS256", "kid": "first"}, claims, KEY)
    keys: Callable[[], dict[str, Any]] = lambda: KeySet([KEY]).as_dict()
    description: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    redirected: dict[str, str] = field(default_factory=dict)
    held: dict[str, threading.Event] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    asks_person: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Return the description of the provider."""
        paths = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
        return {"issuer": self.url} | {name: self.url + path for name, path in paths.items()} | self.description

    def authorize(self, query: dict[str, str]) -> str:
        """Check a question, and return where the browser goes with a code."""
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return query["redirect_uri"] + "?" + urlencode({"code": code, "state": query["state"], "iss": self.url})

    def redeem(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Return a token for a code, once, to the client that asked for the code and has the verifier."""
        expected = "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        asked = self.codes.pop(form.get("code", ""), None)
        if authorization != expected or asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        token = self.sign(self.change(claims | self.person))
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": token}


PERSON = {"sub": "u-1", "email": "anna@example.org", "email_verified": True, "groups": ["rl-team"]}


@contextlib.contextmanager
def running_provider() -> Iterator[OidcProvider]:  # noqa: C901 - the handler is one of the provider
    """Run a provider until the block ends."""
    provider = OidcProvider()

    class Handler(BaseHTTPRequestHandler):
        """Serves the provider."""

        def log_message(self, *_: object) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            """Describe, show keys, and sign a person in."""
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if self.answered_otherwise(parts.path):
                return
            if parts.path == "/authorize":
                address = provider.authorize(query)
                if provider.asks_person:
                    page = f"<title>Provider</title><a href='{address.replace('&', '&amp;')}'>I am anna</a>"
                    self.send(200, page.encode(), "text/html")
                else:
                    self.redirect(address)
            elif parts.path == "/keys":
                self.send(200, json.dumps(provider.keys()).encode())
            elif parts.path == "/.well-known/openid-configuration":
                self.send(200, json.dumps(provider.describe()).encode())
            elif parts.path == "/favicon.ico":
                # a browser asks for it without a request of the page, and complains where it is missing
                self.send(200, b"", "image/x-icon")
            else:
                self.send(404, b"{}")

        def do_POST(self) -> None:
            """Exchange a code."""
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if not self.answered_otherwise(self.path):
                form = {name: values[0] for name, values in parse_qs(body).items()}
                status, answer = provider.redeem(form, self.headers.get("Authorization", ""))
                self.send(status, json.dumps(answer).encode())

        def answered_otherwise(self, path: str) -> bool:
            """Hold the answer as long as a test wants, and send the answer that the test has set."""
            provider.asked.append(path)
            if path in provider.held:
                provider.held[path].wait(60)
            if path in provider.raw:
                self.send(200, provider.raw[path])
            if path in provider.redirected:
                self.redirect(provider.redirected[path])
            return path in provider.raw or path in provider.redirected

        def redirect(self, address: str) -> None:
            """Send the client elsewhere."""
            self.send_response(302)
            self.send_header("Location", address)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def send(self, status: int, body: bytes, media_type: str = "application/json") -> None:
            """Send an answer; who has gone does not read it."""
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Type", media_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="oidc-provider")
    thread.start()
    try:
        yield provider
    finally:
        for event in provider.held.values():
            event.set()
        server.shutdown()
        thread.join()
        server.server_close()
