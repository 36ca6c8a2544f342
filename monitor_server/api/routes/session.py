"""Sign-in and sign-out of a browser: a key is exchanged for a cookie that scripts cannot read."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.identification import caller_of
from monitor_server.access.sessions import delete_session_cookie, set_session_cookie
from monitor_server.api.dependencies import Asking, Serving
from monitor_server.api.error_handlers import BODY_REFUSALS
from monitor_server.api.schemas import Body, Schema
from monitor_server.errors import KeyRequired, ScopeTooSmall

__all__ = ["router"]

router = APIRouter(prefix="/session")


class SessionItem(Schema):
    """The signed-in caller; ``name`` is null if no keys are in use."""

    name: str | None
    scope: Scope
    project: str | None
    by_key: bool


class SessionBody(Body):
    """The key to sign in with."""

    key: Annotated[str, Field(min_length=1, max_length=200)]


@router.get("")
async def current(asking: Asking) -> SessionItem:
    """Return the caller."""
    return _item(asking)


@router.post("", responses=BODY_REFUSALS)
async def sign_in(body: SessionBody, request: Request, response: Response, collector: Serving) -> SessionItem:
    """Sign in: the answer sets a cookie that ends with the key, at the latest after `RLVITALS_SESSION_SECONDS`."""
    key = collector.keys.recognise(body.key.strip())
    if key is None:
        raise KeyRequired("the key is not known, has expired or was revoked")
    caller = caller_of(key)
    if not caller.may(Scope.READ):
        raise ScopeTooSmall(f"the dashboard needs a key with the scope read, and this one has {caller.scope}")
    settings = collector.settings
    set_session_cookie(
        response, request, key,
        now=collector.clock(), seconds=settings.session_seconds, is_https=settings.is_https,
    )  # fmt: skip
    return _item(caller)


@router.delete("")
async def sign_out(response: Response) -> dict[str, str]:
    """Sign out: the answer removes the cookie."""
    delete_session_cookie(response)
    return {"status": "signed out"}


def _item(caller: Caller) -> SessionItem:
    return SessionItem(name=caller.name, scope=caller.scope, project=caller.project, by_key=caller.key_id is not None)
