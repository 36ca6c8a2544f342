"""The links of notifications: a page that asks, and the form on it that acts. And the end of all links."""

import asyncio
from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from monitor_server.access.keys.administration import record_change
from monitor_server.action_links.using import FoundLink, LinkState, LinkUse, read_link
from monitor_server.api.confirmation.page import HEADERS, draw_done, draw_link, draw_problem
from monitor_server.api.dependencies import Asking, Collector, Serving
from monitor_server.api.schemas import Schema
from monitor_server.errors import RequestNotPossible, TooManyRequests, Unavailable
from monitor_server.store.repositories import Repositories

__all__ = ["pages", "router"]

router = APIRouter(prefix="/notifications/links")
pages = APIRouter()

LONGEST_FORM: Final = 4_096
GONE: Final = 410
INVALID: Final = (
    "This link is not valid",
    "It is not one of this collector, it was withdrawn, or its run was deleted. Nothing has been changed.",
)


class EndedLinks(Schema):
    """How many links held until now, and no longer do."""

    ended: int


@router.post("/end")
async def end_links(collector: Serving, asking: Asking) -> EndedLinks:
    """End all links that hold, and their secret; messages from now on are signed with a new one."""
    now = collector.clock()

    def write(repositories: Repositories) -> int:
        repositories.action_links.end_secrets(now=now)
        ended = repositories.action_links.expire_links(now=now)
        record_change(repositories, asking, "links.end", "the links of notifications", now=now, detail=f"{ended} links")
        return ended

    return EndedLinks(ended=await asyncio.wrap_future(collector.writer.submit("links", write)))


@pages.get("/act/{token}", include_in_schema=False)
async def open_link(token: str, request: Request, collector: Serving) -> HTMLResponse:
    """Show what a link will do. Nothing is changed: mail scanners and chat programs open links by themselves."""
    try:
        collector.link_limits.count(_address(request))
        found = await asyncio.to_thread(_read, collector, token)
    except (TooManyRequests, Unavailable) as error:
        return _refusal(error)
    if found is None:
        return _page(draw_problem(*INVALID), status=404)
    return _page(draw_link(found, now=collector.clock()), status=200 if found.state is LinkState.OPEN else GONE)


@pages.post("/act/{token}", include_in_schema=False)
async def confirm_link(token: str, request: Request, collector: Serving) -> HTMLResponse:
    """Do what a link does, where the form of its page asks for it."""
    try:
        collector.link_limits.count(_address(request))
        use = await collector.use_link(token, await _confirmation(request))
        found = await asyncio.to_thread(_read, collector, token)
    except (TooManyRequests, Unavailable) as error:
        return _refusal(error)
    except RequestNotPossible as error:
        return _page(draw_problem("Nothing was done", f"{error}."), status=error.status)
    return _answer(use, found, now=collector.clock())


def _answer(use: LinkUse, found: FoundLink | None, *, now: float) -> HTMLResponse:
    if use.found is None or found is None:
        return _page(draw_problem(*INVALID), status=404)
    if use.is_done:
        return _page(draw_done(found))
    if found.state is LinkState.OPEN and not use.is_confirmed:
        problem = (
            "Nothing was done",
            "The page was open for too long. Open the link again, and press the button there.",
        )
        return _page(draw_problem(*problem), status=403)
    return _page(draw_link(found, now=now), status=GONE)


def _read(collector: Collector, token: str) -> FoundLink | None:
    with collector.store.read() as repositories:
        return read_link(repositories, collector.link_secrets, token, now=collector.clock())


async def _confirmation(request: Request) -> str:
    body = await request.body()
    if len(body) > LONGEST_FORM:
        return ""
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=4)
    except ValueError:
        return ""
    return fields.get("confirmation", [""])[0]


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _refusal(error: TooManyRequests | Unavailable) -> HTMLResponse:
    words = (
        "Too many links were opened from your address. Nothing has been changed; open the link again in a minute."
        if isinstance(error, TooManyRequests)
        else "The collector cannot reach its database now. Nothing has been changed; open the link again in a minute."
    )
    return _page(draw_problem("Try again", words), status=error.status, extra={"Retry-After": "60"})


def _page(content: str, *, status: int = 200, extra: dict[str, str] | None = None) -> HTMLResponse:
    return HTMLResponse(content, status_code=status, headers={**HEADERS, **(extra or {})})
