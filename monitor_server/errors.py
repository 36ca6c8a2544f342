"""Errors of the collector and the one shape in which HTTP tells them.

CollectorError                      500
├── MalformedBody                   400  neither msgpack nor JSON, truncated, or not what its encoding says
├── UnknownRun, UnknownAlert        404
├── UnknownPath                     404
├── MethodNotAllowed                405
├── BodyTooLarge                    413  before or after decompression
├── UnsupportedMediaType            415  neither msgpack nor JSON; neither zstd nor gzip
├── InvalidField (ValueError)       422  a well-formed body or query with a wrong field
│   └── SchemaVersionMismatch       422
├── Unavailable                     503  try again
└── StartupError                         told on the command line in one line, exit status 1
    ├── DatabaseNewer
    ├── DatabaseUnusable
    └── AddressUnusable
RecordError (ValueError)                 refuses one record; becomes a ``Rejection``, never a response
├── InvalidRecord
├── TooManySignals
└── SummaryConflict
"""

import logging
from collections.abc import Mapping
from typing import ClassVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

__all__ = [
    "AddressUnusable",
    "BodyTooLarge",
    "CollectorError",
    "DatabaseNewer",
    "DatabaseUnusable",
    "ErrorAnswer",
    "InvalidField",
    "InvalidRecord",
    "MalformedBody",
    "MethodNotAllowed",
    "RecordError",
    "SchemaVersionMismatch",
    "StartupError",
    "SummaryConflict",
    "TooManySignals",
    "Unavailable",
    "UnknownAlert",
    "UnknownPath",
    "UnknownRun",
    "UnsupportedMediaType",
    "install_handlers",
]

log = logging.getLogger(__name__)


class CollectorError(Exception):
    """Base of everything the collector refuses; ``status`` is its HTTP status."""

    status = 500
    headers: ClassVar[Mapping[str, str]] = {}


class MalformedBody(CollectorError):
    """The body is not what its media type or encoding says."""

    status = 400


class UnknownRun(CollectorError):
    """No run has this id."""

    status = 404


class UnknownAlert(CollectorError):
    """No alert has this id."""

    status = 404


class UnknownPath(CollectorError):
    """Nothing is served at this path."""

    status = 404


class MethodNotAllowed(CollectorError):
    """The path exists, but not with this method."""

    status = 405


class BodyTooLarge(CollectorError):
    """The body exceeds a limit, as sent or decompressed."""

    status = 413


class UnsupportedMediaType(CollectorError):
    """The body's media type or encoding is not spoken here."""

    status = 415


class InvalidField(CollectorError, ValueError):
    """A field is unknown, missing, of the wrong type or out of range."""

    status = 422


class SchemaVersionMismatch(InvalidField):
    """The batch speaks another version of the wire schema."""


class Unavailable(CollectorError):
    """The collector cannot answer now; nothing was stored."""

    status = 503
    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "1"}


class StartupError(CollectorError):
    """The collector cannot start; the message is all the user needs."""


class DatabaseNewer(StartupError):
    """A newer rlvitals has migrated the database."""


class DatabaseUnusable(StartupError):
    """The database cannot be opened or written."""


class AddressUnusable(StartupError):
    """The address cannot be listened on."""


class RecordError(ValueError):
    """Base of the reasons for which one record of a batch is refused."""


class InvalidRecord(RecordError):
    """A field of the record is unknown, missing, of the wrong type or out of range."""


class TooManySignals(RecordError):
    """The run would have more signals than are allowed."""


class SummaryConflict(RecordError):
    """A summary cannot be merged with the one another rank sent for the same step."""


class ErrorAnswer(BaseModel):
    """The body of every answer that is not a success."""

    error: str
    detail: str


_NAMES = {400: "MalformedBody", 404: "UnknownPath", 405: "MethodNotAllowed"}


def install_handlers(app: FastAPI) -> None:
    """Give every error that leaves a route of ``app`` the one shape."""

    async def collector_error(_: Request, error: Exception) -> JSONResponse:
        if isinstance(error, CollectorError):
            return _answer(error.status, type(error).__name__, str(error), error.headers)
        raise error

    async def http_error(request: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, HTTPException):
            raise error
        details = {
            404: f"nothing is served at {request.url.path}; see /docs",
            405: f"{request.method} is not served at {request.url.path}; see /docs",
        }
        name = _NAMES.get(error.status_code, type(error).__name__)
        return _answer(error.status_code, name, details.get(error.status_code, str(error.detail)), error.headers)

    async def invalid_query(_: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, RequestValidationError):
            raise error
        located = (f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors())
        return _answer(422, "InvalidField", "; ".join(located))

    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return _answer(500, "InternalError", "the collector failed; its log says where")

    app.add_exception_handler(CollectorError, collector_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid_query)
    app.add_exception_handler(Exception, unexpected)


def _answer(status: int, error: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(ErrorAnswer(error=error, detail=detail).model_dump(), status_code=status, headers=headers)
