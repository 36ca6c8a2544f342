"""The links of notifications: a page with a question, a form on it that acts, and the end of all links."""

import logging
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from monitor_server.access.audit.entries import record_change
from monitor_server.action_links.issuing import PATH
from monitor_server.action_links.page import HEADERS, draw_done, draw_link, draw_problem, draw_unknown
from monitor_server.action_links.using import LinkState, LinkUse
from monitor_server.api.dependencies import Asking, Collector, Serving, client_address
from monitor_server.api.schemas import Schema
from monitor_server.api.use_cases.use_action_link import use_action_link
from monitor_server.errors import InvalidField, OutcomeUnknown, RequestNotPossible, TooManyRequests, Unavailable
from monitor_server.store.repositories import Repositories

__all__ = ["pages", "router"]

log = logging.getLogger(__name__)

router = APIRouter(prefix="/notifications/links")
pages = APIRouter()

GONE: Final = 410
INVALID: Final = (
    "This link is not valid",
    "It is not one of this collector, it was withdrawn, or its run was deleted. Nothing has been changed.",
)


class EndedLinks(Schema):
    """The number of links that were valid until now.

    ``has_new_secret`` is false if the secret is in the file of RLVITALS_LINK_SECRET_FILE, which people replace.
    """

    ended: int
    has_new_secret: bool


@router.post("/end")
async def end_links(collector: Serving, asking: Asking) -> EndedLinks:
    """End all valid links, and their secret if it is in the database; later messages are signed with a new one."""
    now = collector.clock()

    def write(repositories: Repositories) -> int:
        repositories.action_links.end_secrets(now=now)
        ended = repositories.action_links.expire_links(now=now)
        record_change(repositories, asking, "links.end", "the links of notifications", now=now, detail=f"{ended} links")
        return ended

    ended = await collector.write("links", write)
    return EndedLinks(ended=ended, has_new_secret=collector.settings.link_secret_file is None)


@pages.get(f"{PATH}{{token:path}}", include_in_schema=False)
async def open_link(token: str, request: Request, collector: Serving) -> HTMLResponse:
    """Show the action of a link, without a change: mail scanners and chat programs open links by themselves."""
    try:
        found = await collector.links.find(_token(token), address=client_address(request))
    except (TooManyRequests, Unavailable) as error:
        return _refusal(error)
    if found is None:
        return _page(draw_problem(*INVALID), status=404)
    return _page(draw_link(found, now=collector.clock()), status=200 if found.state is LinkState.OPEN else GONE)


@pages.post(f"{PATH}{{token:path}}", include_in_schema=False)
async def confirm_link(token: str, request: Request, collector: Serving) -> HTMLResponse:
    """Carry out the action of a link, at the request of the form on its page."""
    token = _token(token)
    try:
        found = await collector.links.find(token, address=client_address(request))
        if found is None:
            return _page(draw_problem(*INVALID), status=404)
        try:
            use = await use_action_link(collector, token, await _confirmation(request))
        except OutcomeUnknown as error:
            log.warning("it is not known whether a link has acted on alert %s: %s", found.alert.id, error.__cause__)
            return _page(draw_unknown(found), status=error.status, extra=error.headers)
    except (TooManyRequests, Unavailable) as error:
        return _refusal(error)
    except (RequestNotPossible, InvalidField) as error:
        return _page(draw_problem("Nothing was done", f"{error}."), status=error.status)
    return await _answer(use, token, collector)


async def _answer(use: LinkUse, token: str, collector: Collector) -> HTMLResponse:
    if use.found is None:
        return _page(draw_problem(*INVALID), status=404)
    try:
        found = await collector.links.read(token)
    except Unavailable:
        found = None
    if use.is_done:
        return _page(draw_done(use.found, now=found))
    found = found or use.found
    if found.state is LinkState.OPEN and not use.is_confirmed:
        problem = (
            "Nothing was done",
            "The page was open for too long. Open the link again, and press the button there.",
        )
        return _page(draw_problem(*problem), status=403)
    return _page(draw_link(found, now=collector.clock()), status=GONE)


def _token(given: str) -> str:
    """Return the token of an address; some programs write a slash after it."""
    return given.removesuffix("/")


async def _confirmation(request: Request) -> str:
    try:
        fields = parse_qs((await request.body()).decode("ascii"), max_num_fields=4)
    except ValueError:
        return ""
    return fields.get("confirmation", [""])[0]


def _refusal(error: TooManyRequests | Unavailable) -> HTMLResponse:
    words = (
        "Too many links that do not exist were opened from your address. Nothing has been changed; try again in a "
        "minute."
        if isinstance(error, TooManyRequests)
        else "The collector cannot reach its database now. Nothing has been changed; open the link again in a minute."
    )
    return _page(draw_problem("Try again", words), status=error.status, extra={"Retry-After": "60"})


def _page(content: str, *, status: int = 200, extra: Mapping[str, str] | None = None) -> HTMLResponse:
    return HTMLResponse(content, status_code=status, headers={**HEADERS, **(extra or {})})
