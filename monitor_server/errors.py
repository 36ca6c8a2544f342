"""The errors of the collector. `api.error_handlers` answers them over HTTP, in one shape.

CollectorError                      500
├── MalformedBody                   400  neither msgpack nor JSON, truncated, or not what its encoding says
├── KeyRequired                     401  no key, or one that is not known, has expired or was revoked
├── ForeignOrigin                   403  caused by a page of another origin
├── ScopeTooSmall                   403  the key may not do this
├── SignInRefused                   403  the OpenID Connect provider, its token or the person's groups do not allow it
├── UnknownRun, UnknownAlert        404
├── UnknownProject, UnknownKey      404
├── UnknownChannel, UnknownSilence  404
├── UnknownRule, UnknownView        404
├── UnknownVersion, UnknownPath     404
├── MethodNotAllowed                405
├── RunActive                       409  its trainer sends
├── KeyNameTaken                    409  a key of this name is in use
├── RuleConflict                    409  the name of a rule is taken, there are too many, or a file states it
├── TooManyViews                    409  as many views are saved as there may be
├── SettingsConflict                409  somebody else has saved the settings meanwhile, or they are set elsewhere
├── RequestNotPossible              409  the trainer of a run cannot be asked for this now
├── BodyTooLarge                    413  before or after decompression
├── UnsupportedMediaType            415  neither msgpack nor JSON; neither zstd nor gzip
├── UnknownHost                     421  addressed by a name that is not this server's
├── InvalidField (ValueError)       422  a well-formed body or query with a wrong field
│   └── SchemaVersionMismatch       422
├── TooManyRequests                 429  more requests or bytes than one key may send
├── MissingLibrary                  501  an optional library is not installed on the collector
├── ChannelFailed                   502  a channel of notifications did not accept a test message
├── Unavailable                     503  nothing was stored; send again later
│   └── ProjectedElsewhere               another collector has projected the run; never a response
├── OutcomeUnknown                  503  a change was begun, and it is not known whether it was stored
├── DeletionUnderWay                503  nothing was stored; send again once the run's old data are removed
└── StartupError                         the command line prints its message as one line and exits with status 1
    ├── DatabaseNewer
    ├── DatabaseUnusable
    ├── KeysMissing                      reachable from other machines, and nobody needs a key
    ├── UndeclaredRoute                  a route of ours without a scope
    └── AddressUnusable
RecordError (ValueError)                 refuses one record; becomes a ``Rejection``, never a response
├── InvalidRecord
├── TooManySignals
└── SummaryConflict
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Self

__all__ = [
    "AddressUnusable",
    "BodyTooLarge",
    "ChannelFailed",
    "CollectorError",
    "DatabaseNewer",
    "DatabaseUnusable",
    "DeletionUnderWay",
    "ForeignOrigin",
    "InvalidField",
    "InvalidRecord",
    "KeyNameTaken",
    "KeyRequired",
    "KeysMissing",
    "MalformedBody",
    "MethodNotAllowed",
    "MissingLibrary",
    "OutcomeUnknown",
    "ProjectedElsewhere",
    "RecordError",
    "RequestNotPossible",
    "RuleConflict",
    "RunActive",
    "SchemaVersionMismatch",
    "ScopeTooSmall",
    "SettingsConflict",
    "SignInRefused",
    "StartupError",
    "SummaryConflict",
    "TooManyRequests",
    "TooManySignals",
    "TooManyViews",
    "Unavailable",
    "UndeclaredRoute",
    "UnknownAlert",
    "UnknownChannel",
    "UnknownHost",
    "UnknownKey",
    "UnknownPath",
    "UnknownProject",
    "UnknownRule",
    "UnknownRun",
    "UnknownSilence",
    "UnknownVersion",
    "UnknownView",
    "UnsupportedMediaType",
]


class CollectorError(Exception):
    """Base of the collector's errors; ``status`` is the HTTP status, ``headers`` are sent with it."""

    status = 500
    headers: Mapping[str, str] = MappingProxyType({})


class MalformedBody(CollectorError):
    """The body does not decode as its media type and content encoding state."""

    status = 400


class ForeignOrigin(CollectorError):
    """A page of another origin caused the request."""

    status = 403


class KeyRequired(CollectorError):
    """The request needs a key that is valid."""

    status = 401
    headers = MappingProxyType({"WWW-Authenticate": "Bearer"})


class ScopeTooSmall(CollectorError):
    """The caller is known, and may not do this."""

    status = 403


class SignInRefused(CollectorError):
    """A sign-in by OpenID Connect has failed; ``reason`` is the code that the sign-in page has a sentence for.

    Args:
        reason: ``provider``, ``refused``, ``invalid``, ``expired``, ``unverified`` or ``no_group``.
        message: What has happened, for the log.
    """

    status = 403

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[1])


class UnknownKey(CollectorError):
    """No key in use has this name or id."""

    status = 404


class KeyNameTaken(CollectorError):
    """A key of this name is in use."""

    status = 409


class RequestNotPossible(CollectorError):
    """The trainer of a run cannot be asked for this now."""

    status = 409


class TooManyRequests(CollectorError):
    """A key has sent more than it may in a time."""

    status = 429

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.headers = MappingProxyType({"Retry-After": str(retry_after)})


class UnknownHost(CollectorError):
    """The request addresses the server by a name that is not its own."""

    status = 421


class UnknownRun(CollectorError):
    """No run has this id."""

    status = 404

    @classmethod
    def by_id(cls, run_id: str) -> Self:
        """Return the error for an id that no run has."""
        return cls(f"no run has the id {run_id!r}; GET /api/v1/runs lists them")


class UnknownProject(CollectorError):
    """No run belongs to this project."""

    status = 404

    @classmethod
    def by_name(cls, name: str) -> Self:
        """Return the error for a project that has no run."""
        return cls(f"no run belongs to the project {name!r}; GET /api/v1/runs lists runs and projects")


class UnknownAlert(CollectorError):
    """No alert has this id."""

    status = 404

    @classmethod
    def by_id(cls, alert_id: str) -> Self:
        """Return the error for an id that no alert has."""
        return cls(f"no alert has the id {alert_id!r}; GET /api/v1/alerts lists them")


class UnknownChannel(CollectorError):
    """The file of notifications has no channel of this name."""

    status = 404


class UnknownVersion(CollectorError):
    """No version of the channels and routes has this number, or it is no longer kept."""

    status = 404


class SettingsConflict(CollectorError):
    """Somebody else has saved the settings meanwhile, or a file or the environment sets them."""

    status = 409


class UnknownSilence(CollectorError):
    """No silence has this id."""

    status = 404


class UnknownRule(CollectorError):
    """No rule has this id."""

    status = 404

    @classmethod
    def by_id(cls, rule_id: str) -> Self:
        """Return the error for an id that no rule has."""
        return cls(f"no rule has the id {rule_id!r}; GET /api/v1/rules lists them")


class RuleConflict(CollectorError):
    """The rule cannot stand beside those that there are: its name is taken, there are too many, or a file states it."""

    status = 409


class UnknownView(CollectorError):
    """No saved view has this id."""

    status = 404


class TooManyViews(CollectorError):
    """As many views are saved as there may be."""

    status = 409


class UnknownPath(CollectorError):
    """No route serves this path."""

    status = 404


class MethodNotAllowed(CollectorError):
    """The path exists, but does not serve this method; ``Allow`` names the methods that it serves."""

    status = 405

    def __init__(self, message: str, allowed: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.headers = MappingProxyType({"Allow": ", ".join(sorted(allowed))})


class RunActive(CollectorError):
    """The trainer of the run still sends."""

    status = 409


class BodyTooLarge(CollectorError):
    """The body exceeds a limit, as sent or decompressed."""

    status = 413


class UnsupportedMediaType(CollectorError):
    """The collector does not read this media type or content encoding."""

    status = 415


class InvalidField(CollectorError, ValueError):
    """A field is unknown, missing, of the wrong type or out of range."""

    status = 422


class SchemaVersionMismatch(InvalidField):
    """The batch is written in another version of the wire schema."""


class MissingLibrary(CollectorError):
    """The answer needs an optional library that is not installed on the collector."""

    status = 501


class ChannelFailed(CollectorError):
    """A channel of notifications did not accept a test message."""

    status = 502


class Unavailable(CollectorError):
    """The collector cannot answer now; nothing was stored."""

    status = 503
    headers = MappingProxyType({"Retry-After": "1"})


class OutcomeUnknown(CollectorError):
    """A change was begun, and the database has not confirmed it; it may or may not be stored."""

    status = 503
    headers = MappingProxyType({"Retry-After": "60"})


class ProjectedElsewhere(Unavailable):
    """Another collector has projected the run since it was read; nothing was stored."""


class DeletionUnderWay(CollectorError):
    """The run or the attempt is being removed; nothing was stored, and it begins anew with the next batch then."""

    status = 503
    headers = MappingProxyType({"Retry-After": "1"})


class StartupError(CollectorError):
    """The collector cannot start; the message states why and what to do."""


class DatabaseNewer(StartupError):
    """A newer version of rlvitals has migrated the database."""


class DatabaseUnusable(StartupError):
    """The database cannot be opened or written."""


class KeysMissing(StartupError):
    """Other machines can reach the server, and nobody needs a key."""


class UndeclaredRoute(StartupError):
    """A route has no scope in `access.route_table`."""


class AddressUnusable(StartupError):
    """The server cannot listen on the address."""


class RecordError(ValueError):
    """Base of the errors that refuse one record of a batch."""


class InvalidRecord(RecordError):
    """A field of the record is unknown, missing, of the wrong type or out of range."""


class TooManySignals(RecordError):
    """The record would give the run more signals than are allowed."""


class SummaryConflict(RecordError):
    """A summary cannot be merged with the one that another rank sent for the same step."""
