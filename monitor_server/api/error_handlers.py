"""Answers every error of a route in one shape: ``{"error": class name, "detail": message}``."""

import logging
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from monitor_server.action_links.issuing import PATH as LINKS
from monitor_server.errors import CollectorError, ResourcesExhausted
from monitor_server.errors.answering import DETAIL_CHARS
from monitor_server.text_safety.printable import printable

__all__ = [
    "BODY_REFUSALS",
    "CHANNEL_FAILED",
    "CONFLICT",
    "GUARD_REFUSALS",
    "NOT_FOUND",
    "REFUSALS",
    "ErrorBody",
    "install_error_handlers",
]

log = logging.getLogger(__name__)

NOBODY_LISTENS = 499  # the client has disconnected, so nobody receives the answer; this is not an error
_UNREADABLE_BODY = (
    "the body must be JSON text in UTF-8 that is nested at most some hundred deep, and whose integers have at most "
    f"{sys.get_int_max_str_digits()} digits; the routes and their fields are in docs/api.md"
)
_NO_THREAD = "can't start new thread"  # the text of Python's RuntimeError
_NAMES = {400: "MalformedBody", 404: "UnknownPath", 405: "MethodNotAllowed"}


class ErrorBody(BaseModel):
    """The body of every response that is not a success."""

    error: str
    detail: str


def _declare_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorBody, "description": HTTPStatus(status).phrase} for status in statuses}


GUARD_REFUSALS = _declare_errors(401, 403, 421, 429, 503)
"""Errors that every route may return: a missing key or permission, a foreign origin or host name, too
many requests of a key, and a store that does not answer."""
REFUSALS = GUARD_REFUSALS | _declare_errors(422)
"""Errors that every route of the API may return in addition."""
NOT_FOUND = _declare_errors(404)
"""The error of a route for an unknown id."""
CONFLICT = _declare_errors(409)
"""The error of a route for a run whose trainer still sends."""
CHANNEL_FAILED = _declare_errors(502)
"""The error of a route that sends a message to a channel, if the channel does not accept it."""
BODY_REFUSALS = _declare_errors(400, 413, 415)
"""Errors that a route which reads a body may return."""


def install_error_handlers(app: FastAPI) -> None:
    """Install handlers that answer every error of a route of ``app`` with an `ErrorBody`."""

    async def collector_error(_: Request, error: Exception) -> JSONResponse:
        if isinstance(error, CollectorError):
            return _response(error.status, type(error).__name__, str(error), error.headers)
        raise error

    async def http_error(request: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, HTTPException):
            raise error
        details = {
            400: _UNREADABLE_BODY if isinstance(error.__cause__, ValueError | RecursionError) else str(error.detail),
            404: f"nothing is served at {request.url.path}; see /docs",
            405: f"{request.method} is not served at {request.url.path}; see /docs",
        }
        name = _NAMES.get(error.status_code, type(error).__name__)
        detail = details.get(error.status_code, str(error.detail))
        return _response(error.status_code, name, detail, error.headers)

    async def invalid_request(_: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, RequestValidationError):
            raise error
        return _response(422, "InvalidField", "; ".join(map(_describe_with_place, error.errors())))

    async def client_disconnected(_: Request, __: Exception) -> Response:
        return Response(status_code=NOBODY_LISTENS)

    app.add_exception_handler(CollectorError, collector_error)
    app.add_exception_handler(RuntimeError, _answer_exhausted)
    app.add_exception_handler(MemoryError, _answer_exhausted)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid_request)
    app.add_exception_handler(ClientDisconnect, client_disconnected)
    app.add_exception_handler(Exception, _answer_unexpected)


async def _answer_unexpected(request: Request, error: Exception) -> JSONResponse:
    path = request.url.path
    # The rest of a link's address grants the right to act.
    shown = f"{LINKS}..." if path.startswith(LINKS) else path
    log.error("%s %s failed", request.method, shown, exc_info=error)
    return _response(500, "InternalError", "the collector failed; its log has the traceback")


async def _answer_exhausted(request: Request, error: Exception) -> JSONResponse:
    """Answer an error that may mean that the system gives the collector no thread or no memory."""
    if isinstance(error, MemoryError):
        limit = "memory; raise its limit, such as ulimit -v, or the memory of the container"
    elif str(error) == _NO_THREAD:
        limit = "threads; raise their limit, such as ulimit -u, or the pids of the container"
    else:
        return await _answer_unexpected(request, error)
    refusal = ResourcesExhausted(f"the system gives the collector no more {limit}")
    request.app.state.collector.exhaustion.note_failure(refusal)
    return _response(refusal.status, type(refusal).__name__, str(refusal), refusal.headers)


def _describe_with_place(item: Mapping[str, Any]) -> str:
    """Return one error of a request with its place: a field, or the character at which the body is no JSON."""
    if item["type"] == "json_invalid":
        return f"the body must be JSON, got an error at character {item['loc'][-1]}: {item['ctx']['error']}"
    return f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"


def _response(status: int, error: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    shown = printable(detail, longest=DETAIL_CHARS)
    return JSONResponse(ErrorBody(error=error, detail=shown).model_dump(), status_code=status, headers=headers)
