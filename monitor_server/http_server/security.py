"""The rules for every request before it reaches a route, and the headers of every response.

A browser sends requests on behalf of its user to any address, so listening on the loopback is no protection:

- The ``Host`` must be known. A foreign site can let its own name point to this machine (DNS rebinding). The browser
  then passes our answers to the foreign page, but it still sends the foreign name.
- A request has at most one ``Authorization``, so that nobody before us takes it for the request of another caller.
- A request that a page of another origin caused is refused (``Sec-Fetch-Site``, ``Origin``), unless it opens a page.
- A request that changes something must carry JSON or msgpack. A form of another site can send neither. Forms are
  accepted below one path only, where the address itself grants the right to act.
- A path or a query contains no NUL, which our databases cannot search for.
- The bytes of a body are counted while it is read, on every route, and those of all bodies together.
- Every request has an id, which its response names.
- Every response forbids framing, sniffing of types, and foreign scripts.
- No cache keeps a response that does not say for whom: the next person at a browser or a proxy could read it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor_server.errors import (
    CollectorError,
    ForeignOrigin,
    InvalidField,
    MalformedBody,
    UnknownHost,
    UnsupportedMediaType,
)
from monitor_server.errors.answering import refuse
from monitor_server.http_server.bodies import HeldBodies, LimitedRequest, too_large
from monitor_server.http_server.host_policy import HostPolicy
from monitor_server.http_server.routing_shortcut import DirectRoutes, Endpoint
from monitor_server.instrumentation.request_ids import HEADER, REQUEST_ID, choose_id
from monitor_server.text_safety.patterns import WITHOUT_NUL

__all__ = ["SecuredApp", "SecurityMiddleware"]

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MEDIA_TYPES: Final = ("application/json", "application/msgpack")
FORM_TYPES: Final = ("application/x-www-form-urlencoded",)
MOST_HELD_BYTES: Final = 256 * 1024 * 1024

# A browser needs only the bytes of an API answer. A page sends a policy of its own.
STRICTEST_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
CACHE_CONTROL: Final = b"cache-control"
RESPONSE_HEADERS: Final[Mapping[bytes, bytes]] = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",  # addresses contain the ids of runs and alerts
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": STRICTEST_POLICY.encode(),
    CACHE_CONTROL: b"no-store",
}


@dataclass(slots=True)
class SecurityMiddleware:
    """Wraps an ASGI application and passes on only those requests that comply with the rules of this module.

    Attributes:
        app: The application.
        hosts: The names under which the server may be addressed.
        max_body_bytes: The largest body of a request.
        body_limits: The paths with a limit of their own, in bytes.
        bodies: The bodies that are held at the same time.
        forms: The beginning of the paths that accept forms, from pages that send no referrer; None for none.
        max_form_bytes: The largest form.
    """

    app: ASGIApp
    hosts: HostPolicy
    max_body_bytes: int
    body_limits: Mapping[str, int] = field(default_factory=dict)
    bodies: HeldBodies = field(default_factory=lambda: HeldBodies(MOST_HELD_BYTES))
    forms: str | None = None
    max_form_bytes: int = 4_096

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; other protocols pass through, except websockets, which no part of rlvitals uses."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request_id = choose_id(scope["headers"])
        token = REQUEST_ID.set(request_id)
        try:
            await self._serve(scope, receive, _with_headers(send, request_id))
        finally:
            REQUEST_ID.reset(token)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            _check_address(scope)
            headers = _Headers(scope["headers"])
            self._check_host(headers)
            _check_authorization(headers)
            takes_form = self.forms is not None and scope["path"].startswith(self.forms)
            _check_origin(scope["method"], headers, accepts_null=takes_form)
            _check_media_type(scope["method"], headers, FORM_TYPES if takes_form else MEDIA_TYPES)
            limit = self.max_form_bytes if takes_form else self.body_limits.get(scope["path"], self.max_body_bytes)
            declared = _declared_length(headers)
            if declared > limit:
                raise too_large(limit, declared)
        except CollectorError as error:
            await refuse(error, send, scope=scope)
            return
        await LimitedRequest(self.app, limit, self.bodies).serve(scope, receive, send)

    def _check_host(self, headers: "_Headers") -> None:
        named = headers.all("host")
        if len(named) != 1 or not self.hosts.allows(named[0]):
            given = " and ".join(repr(name[:100]) for name in named) or "none"
            raise UnknownHost(
                f"Host must be an IP address, localhost or a name of this server, got {given}; "
                "add the name to RLVITALS_ALLOWED_HOSTS where the server is started"
            )


class SecuredApp(FastAPI):
    """A FastAPI application with the security middleware around everything, its own error handlers included.

    Attributes:
        secure: Puts the security middleware around an application.
        direct: The endpoints that are called without FastAPI's dispatch, by method and path.
    """

    secure: Callable[[ASGIApp], ASGIApp]
    direct: Mapping[tuple[str, str], Endpoint] = MappingProxyType({})

    def openapi(self) -> dict[str, Any]:
        """Describe the routes; the middleware's rule for texts in a path or a query is added to each of them."""
        described = super().openapi()
        for operations in described["paths"].values():
            for operation in operations.values():
                for parameter in operation.get("parameters", ()):
                    _forbid_nul(parameter["schema"])
        return described

    def build_middleware_stack(self) -> ASGIApp:
        """Build FastAPI's stack, and wrap it in the direct routes and then in the middleware."""
        return self.secure(
            DirectRoutes(super().build_middleware_stack(), self.direct, handlers=self.exception_handlers)
        )


def _forbid_nul(schema: dict[str, Any]) -> None:
    """Add the pattern of texts without NUL to the schema of a parameter that has no pattern of its own."""
    if schema.get("type") == "string" and not schema.keys() & {"pattern", "enum", "const"}:
        schema["pattern"] = WITHOUT_NUL
    for part in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])):
        _forbid_nul(part)


class _Headers:
    """The headers of a request, decoded according to HTTP."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in raw:
            self._values.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1").strip())

    def all(self, name: str) -> Sequence[str]:
        """Return every value of a header, in order."""
        return self._values.get(name, ())

    def first(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        values = self._values.get(name)
        return values[0] if values else None


def _check_address(scope: Scope) -> None:
    """Refuse NUL in a path or a query: PostgreSQL can neither store it nor compare it with anything."""
    if "\0" in scope["path"] or b"%00" in scope["query_string"] or b"\0" in scope["query_string"]:
        raise InvalidField("a path or a query must not contain NUL (%00)")


def _check_authorization(headers: _Headers) -> None:
    """Refuse a second ``Authorization``: a proxy or a log before us may read another one than we do."""
    given = len(headers.all("authorization"))
    if given > 1:
        raise MalformedBody(f"a request must have at most one Authorization header, got {given}")


def _check_origin(method: str, headers: _Headers, *, accepts_null: bool) -> None:
    """Refuse a request that a page of another origin has caused, except a link to one of our pages.

    Args:
        method: The method of the request.
        headers: The headers of the request.
        accepts_null: Whether a page that sends no referrer may cause it; its origin is ``null``.
    """
    site = headers.first("sec-fetch-site")
    if site in ("cross-site", "same-site"):
        opens_page = method in SAFE_METHODS and headers.first("sec-fetch-dest") in ("document", None)
        if not (opens_page and headers.first("sec-fetch-mode") in ("navigate", None)):
            raise ForeignOrigin(f"a page of another origin must not send this request, got Sec-Fetch-Site {site!r}")
    if method in SAFE_METHODS:
        return
    host = (headers.first("host") or "").lower()
    for origin in headers.all("origin"):
        is_own = origin.lower().partition("://")[2] == host or (accepts_null and origin == "null")
        if not is_own:
            raise ForeignOrigin(
                f"Origin must be this server's own ({host}) for a request that changes something, got {origin[:100]!r}"
            )


def _check_media_type(method: str, headers: _Headers, accepted: Sequence[str]) -> None:
    """Require JSON, msgpack or a form in a request that changes something, unless it has no body."""
    if method in SAFE_METHODS:
        return
    given = headers.all("content-type")
    has_body = bool(headers.all("transfer-encoding")) or headers.first("content-length") not in (None, "0")
    if not given and not has_body:
        return
    if len(given) != 1 or given[0].partition(";")[0].strip().lower() not in accepted:
        raise UnsupportedMediaType(f"Content-Type must be {' or '.join(accepted)}, got {', '.join(given)[:100]!r}")


def _declared_length(headers: _Headers) -> int:
    declared = headers.first("content-length") or "0"
    if not (declared.isascii() and declared.isdigit()) or len(declared) > 18:  # noqa: PLR2004 - fits 63 bits
        raise MalformedBody(f"Content-Length must be a number of bytes, got {declared[:40]!r}")
    return int(declared)


def _with_headers(send: Send, request_id: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = [(name.lower(), value) for name, value in message.get("headers", ())]
            given = [each for each in given if each[0] != CACHE_CONTROL or each[1].startswith((b"public", b"private"))]
            names = {name for name, _ in given}
            added = [(name, value) for name, value in RESPONSE_HEADERS.items() if name not in names]
            message = {**message, "headers": [*given, *added, (HEADER, request_id.encode())]}
        await send(message)

    return sending
