"""The errors of the collector. `api.error_handlers` answers them over HTTP, `answering` before a route, in one shape.

Every other module imports them from here. The first column names the module of this package that defines them.

base          CollectorError                      500
requests      ├── MalformedBody                   400  neither msgpack nor JSON, truncated, or of another encoding
              ├── ForeignOrigin                   403  caused by a page of another origin
              ├── UnknownPath                     404
              ├── MethodNotAllowed                405
              ├── BodyTooLarge                    413  before or after decompression
              ├── UnsupportedMediaType            415  neither msgpack nor JSON; neither zstd nor gzip
              ├── UnknownHost                     421  addressed by a name that does not belong to this server
              ├── InvalidField (ValueError)       422  a well-formed body or query with a wrong field
              │   └── SchemaVersionMismatch       422
access        ├── KeyRequired                     401  no key, or one that is unknown, expired or revoked
              ├── ScopeTooSmall                   403  the key does not have this permission
              ├── SignInRefused                   403  refused by the OpenID Connect provider, its token or the groups
              ├── TooManyRequests                 429  more requests or bytes than the limit of a key
not_found     ├── UnknownRun, UnknownProject      404
              ├── UnknownAlert, UnknownRule       404
              ├── UnknownKey, UnknownView         404
              ├── UnknownChannel, UnknownVersion  404
              ├── UnknownSilence                  404
conflicts     ├── RunActive                       409  the trainer of the run still sends
              ├── KeyNameTaken                    409  a key of this name is in use
              ├── RuleConflict                    409  its name is taken, or a run that it needs is to be deleted
              ├── TooManyViews                    409  the number of saved views has reached its limit
              ├── SettingsConflict                409  another person has saved the settings, or they are set elsewhere
              ├── RequestNotPossible              409  the trainer of the run cannot receive this request now
availability  ├── MissingLibrary                  501  an optional library is not installed on the collector
              ├── ChannelFailed                   502  a channel of notifications did not accept a test message
              ├── Unavailable                     503  nothing was stored; send again later
              │   ├── DatabaseMigrated            503  by another version of rlvitals, since the collector has started
              │   ├── ResourcesExhausted          503  no thread or memory; it may be stored nevertheless
              │   └── ProjectedElsewhere               another has projected, reset or thinned the run; never a response
              ├── OutcomeUnknown                  503  a change was begun, and it is not known whether it was stored
              ├── DeletionUnderWay                503  nothing was stored; send again once the old data are removed
startup       └── StartupError                         the command line prints it as one line and exits with status 1
                  ├── DatabaseNewer
                  ├── DatabaseUnusable
                  ├── KeysMissing                      reachable from other machines, and no key is required
                  ├── UndeclaredRoute                  one of our routes has no scope
                  └── AddressUnusable
requests      RecordError (ValueError)                 refuses one record; becomes a ``Rejection``, never a response
              ├── InvalidRecord
              ├── TooManySignals
              └── SummaryConflict
"""

from monitor_server.errors.access import KeyRequired, ScopeTooSmall, SignInRefused, TooManyRequests
from monitor_server.errors.availability import (
    ChannelFailed,
    DatabaseMigrated,
    DeletionUnderWay,
    MissingLibrary,
    OutcomeUnknown,
    ProjectedElsewhere,
    ResourcesExhausted,
    Unavailable,
)
from monitor_server.errors.base import CollectorError
from monitor_server.errors.conflicts import (
    KeyNameTaken,
    RequestNotPossible,
    RuleConflict,
    RunActive,
    SettingsConflict,
    TooManyViews,
)
from monitor_server.errors.not_found import (
    UnknownAlert,
    UnknownChannel,
    UnknownKey,
    UnknownProject,
    UnknownRule,
    UnknownRun,
    UnknownSilence,
    UnknownVersion,
    UnknownView,
)
from monitor_server.errors.requests import (
    BodyTooLarge,
    ForeignOrigin,
    InvalidField,
    InvalidRecord,
    MalformedBody,
    MethodNotAllowed,
    RecordError,
    SchemaVersionMismatch,
    SummaryConflict,
    TooManySignals,
    UnknownHost,
    UnknownPath,
    UnsupportedMediaType,
)
from monitor_server.errors.startup import (
    AddressUnusable,
    DatabaseNewer,
    DatabaseUnusable,
    KeysMissing,
    StartupError,
    UndeclaredRoute,
)

__all__ = [
    "AddressUnusable",
    "BodyTooLarge",
    "ChannelFailed",
    "CollectorError",
    "DatabaseMigrated",
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
    "ResourcesExhausted",
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
