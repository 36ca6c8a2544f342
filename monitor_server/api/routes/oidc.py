"""Sign-in of a browser through an OpenID Connect provider; each answer redirects the browser to a page."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field
from starlette.responses import Response

from monitor_server.access.oidc.pending_sign_ins import PENDING_COOKIE, PENDING_SECONDS, PendingSignIn
from monitor_server.access.oidc.persons import end_sessions, open_session
from monitor_server.access.oidc.sign_in import OidcSignIn
from monitor_server.access.sessions import find_cookie, host_cookie, is_encrypted, set_session_cookie
from monitor_server.api.dependencies import Collector, Serving, client_address
from monitor_server.api.error_handlers import NOT_FOUND
from monitor_server.api.schemas import Schema
from monitor_server.errors import SignInRefused, UnknownPath
from monitor_server.text_safety.printable import printable

__all__ = ["router"]

log = logging.getLogger(__name__)
router = APIRouter(prefix="/session")

COOKIE_PATH = "/api/v1/session/oidc"
REDIRECTS = {303: {"description": "Redirect to the next page"}} | NOT_FOUND
LONGEST_TEXT = 4_000


class ProviderAnswer(BaseModel):
    """The provider's parameters in the address to which it sends the browser back; there may be further ones."""

    state: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""
    code: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""
    error: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""
    iss: Annotated[str, Field(max_length=LONGEST_TEXT)] | None = None


class SignInMethods(Schema):
    """The ways for a browser to sign in other than with a key; ``oidc`` is the name of the provider, or null."""

    oidc: str | None


@router.get("/methods")
async def methods(collector: Serving) -> SignInMethods:
    """Return the ways for a browser to sign in other than with a key: the OpenID Connect provider, or null."""
    return SignInMethods(oidc=None if collector.oidc is None else collector.oidc.configuration.name)


@router.get("/oidc", response_class=RedirectResponse, status_code=303, responses=REDIRECTS)
async def begin(
    request: Request, collector: Serving, page: Annotated[str, Query(alias="next", max_length=LONGEST_TEXT)] = "/"
) -> Response:
    """Send the browser to the provider; `next` is the page of this site that opens after the sign-in."""
    oidc = _require(collector.oidc)
    oidc.limits.count(client_address(request))
    try:
        address, pending = await oidc.begin(page)
    except SignInRefused as error:
        return _answer_refusal(error)
    answer = _redirect(address)
    secure = _is_encrypted(request, collector)
    others = oidc.pending(find_cookie(request.headers, host_cookie(PENDING_COOKIE, secure=secure)))
    _keep_pending(answer, oidc, [*others, pending], secure=secure)
    return answer


@router.get("/oidc/callback", response_class=RedirectResponse, status_code=303, responses=REDIRECTS)
async def finish(request: Request, collector: Serving, asked: Annotated[ProviderAnswer, Query()]) -> Response:
    """Receive the browser from the provider, sign it in and open the page from which it came."""
    oidc = _require(collector.oidc)
    oidc.limits.count(client_address(request))
    secure = _is_encrypted(request, collector)
    cookie = find_cookie(request.headers, host_cookie(PENDING_COOKIE, secure=secure))
    others = [each for each in oidc.pending(cookie) if not each.has_state(asked.state)]
    try:
        pending = _use_pending(oidc, asked, cookie)
        person = await oidc.finish(asked.code, pending)
    except SignInRefused as refusal:
        await _end_sessions(collector, refusal.subject)
        answer = _answer_refusal(refusal)
        # Another sign-in of this browser, to which the answer does not belong, continues.
        if refusal.reason != "expired":
            _keep_pending(answer, oidc, others, secure=secure)
        return answer
    now, seconds = collector.clock(), collector.settings.session_seconds
    key = await collector.write(
        "keys", lambda repositories: open_session(repositories, person, until=now + seconds, now=now)
    )
    await asyncio.to_thread(collector.keys.read)
    answer = _redirect(pending.page)
    set_session_cookie(answer, request, key, now=now, seconds=seconds, is_https=collector.settings.is_https)
    _keep_pending(answer, oidc, others, secure=secure)
    return answer


async def _end_sessions(collector: Collector, subject: str | None) -> None:
    """End the sessions of a person in other browsers, if the provider now reports that the person has no permission."""
    if subject is not None:
        now = collector.clock()
        await collector.write("keys", lambda repositories: end_sessions(repositories, subject, now=now))
        await asyncio.to_thread(collector.keys.read)


def _keep_pending(answer: Response, oidc: OidcSignIn, pending: Sequence[PendingSignIn], *, secure: bool) -> None:
    answer.set_cookie(
        host_cookie(PENDING_COOKIE, secure=secure),
        oidc.cookies.sign(pending) if pending else "",
        max_age=int(PENDING_SECONDS) if pending else 0,
        path=_cookie_path(secure=secure),
        httponly=True,
        samesite="lax",  # the provider sends the browser back by opening a page
        secure=secure,
    )


def _is_encrypted(request: Request, collector: Collector) -> bool:
    return is_encrypted(request.headers, scheme=request.url.scheme, is_https=collector.settings.is_https)


def _cookie_path(*, secure: bool) -> str:
    return "/" if secure else COOKIE_PATH  # a cookie whose name begins with __Host- must have the path /


def _use_pending(oidc: OidcSignIn, answer: ProviderAnswer, cookie: str | None) -> PendingSignIn:
    """Return the sign-in of this browser to which an answer belongs, and use it up.

    Raises:
        SignInRefused: If it belongs to none, or the provider has refused it.
    """
    pending = oidc.use(cookie, state=answer.state)
    if answer.error or not answer.code or answer.iss not in (None, oidc.configuration.issuer):
        reason = printable(answer.error or "the answer has no code, or comes from another provider", longest=100)
        raise SignInRefused("refused", f"the provider refused: {reason}")
    return pending


def _require(oidc: OidcSignIn | None) -> OidcSignIn:
    if oidc is None:
        raise UnknownPath("sign-in by OpenID Connect is not set up here; docs/sign-in.md describes how to set it up")
    return oidc


def _answer_refusal(refusal: SignInRefused) -> Response:
    """Send the browser to the sign-in page, which describes the reason in its own words; the log has the details."""
    log.warning("a sign-in by OpenID Connect was refused: %s", refusal)
    return _redirect(f"/sign-in?refused={refusal.reason}")


def _redirect(address: str) -> Response:
    return RedirectResponse(address, status_code=303)
