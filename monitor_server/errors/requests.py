"""Errors of a request that cannot be read or reaches no route, and of a single refused record of a batch."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Self

from monitor_server.errors.base import CollectorError

__all__ = [
    "BodyTooLarge",
    "ForeignOrigin",
    "InvalidField",
    "InvalidRecord",
    "MalformedBody",
    "MethodNotAllowed",
    "RecordError",
    "SchemaVersionMismatch",
    "SummaryConflict",
    "TooManySignals",
    "UnknownHost",
    "UnknownPath",
    "UnsupportedMediaType",
]


class MalformedBody(CollectorError):
    """The body does not decode as its media type and content encoding state."""

    status = 400


class ForeignOrigin(CollectorError):
    """A page of another origin caused the request."""

    status = 403


class UnknownPath(CollectorError):
    """No route serves this path."""

    status = 404

    @classmethod
    def at(cls, path: str) -> Self:
        """Return the error for a path without a route."""
        return cls(f"nothing is served at {path}; see /docs")


class MethodNotAllowed(CollectorError):
    """The path exists, but does not serve this method; ``Allow`` names the methods that it serves."""

    status = 405

    def __init__(self, message: str, allowed: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.headers = MappingProxyType({"Allow": ", ".join(sorted(allowed))})


class BodyTooLarge(CollectorError):
    """The body exceeds a limit, as sent or decompressed."""

    status = 413


class UnsupportedMediaType(CollectorError):
    """The collector does not read this media type or content encoding."""

    status = 415


class UnknownHost(CollectorError):
    """The request addresses the server by a name that does not belong to it."""

    status = 421


class InvalidField(CollectorError, ValueError):
    """A field is unknown, missing, of the wrong type or out of range."""

    status = 422


class SchemaVersionMismatch(InvalidField):
    """The batch is written in another version of the wire schema."""


class RecordError(ValueError):
    """Base of the errors that refuse one record of a batch."""


class InvalidRecord(RecordError):
    """A field of the record is unknown, missing, of the wrong type or out of range."""


class TooManySignals(RecordError):
    """The record has more signals than are read; signals beyond the limit of a run are left out instead."""


class SummaryConflict(RecordError):
    """A summary cannot be merged with the one that another rank sent for the same step."""
