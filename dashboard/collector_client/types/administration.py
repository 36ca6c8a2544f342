"""Keys, channels and routes, retention, saved views and the audit log."""

from typing import TypedDict

__all__ = [
    "AuditItem",
    "ChannelItem",
    "ChannelSettings",
    "CheckedFile",
    "Escalation",
    "Fallback",
    "Grouping",
    "KeyItem",
    "LimitItem",
    "Limits",
    "NotificationSettings",
    "RemovalItem",
    "Route",
    "VersionItem",
    "ViewItem",
]


class ViewItem(TypedDict):
    """A saved view of the fleet; ``query`` holds its settings as they stand in an address."""

    id: str
    name: str
    project: str | None
    query: str
    saved_at: float
    saved_by: str


class KeyItem(TypedDict):
    """A key, without the key itself; times are seconds since the epoch."""

    id: str
    name: str
    scope: str
    project: str | None
    state: str
    created_at: float
    created_by: str
    last_used_at: float | None
    expires_at: float | None
    revoked_at: float | None


class ChannelItem(TypedDict):
    """A channel of notifications, and the state of its deliveries."""

    name: str
    type: str
    address: str
    waiting: int
    is_failing: bool
    last_error: str | None
    last_sent_at: float | None


class ChannelSettings(TypedDict):
    """The settings of a channel, without its secrets."""

    type: str
    address: str
    format: str | None
    actions: bool
    picture: bool | None


class Escalation(TypedDict):
    """The channels that are notified if nobody has acknowledged an alert after a number of minutes."""

    after_minutes: float
    channels: list[str]


class Route(TypedDict):
    """Which alerts go to which channels."""

    channels: list[str]
    projects: list[str]
    kinds: list[str]
    severity: str
    hours: str | None
    days: list[str]
    time_zone: str
    resolved: bool
    escalate: list[Escalation]


class Grouping(TypedDict):
    """How long alerts are gathered into one message."""

    wait_seconds: float
    window_seconds: float


class Limits(TypedDict):
    """How many messages a channel gets, and how long the delivery of a message is tried."""

    messages_per_hour: int
    give_up_hours: float


class Fallback(TypedDict):
    """The channel that receives the alerts of a failing channel."""

    channel: str
    after_minutes: float


class NotificationSettings(TypedDict):
    """The channels and routes in force; ``source`` is ``file`` where a file of the collector states them."""

    source: str
    version: int
    problem: str
    match: str
    channels: dict[str, ChannelSettings]
    routes: list[Route]
    grouping: Grouping
    limits: Limits
    fallback: Fallback | None


class VersionItem(TypedDict):
    """A version of the channels and routes."""

    version: int
    saved_at: float
    saved_by: str
    changes: str


class CheckedFile(TypedDict):
    """The problems in the text of a file of channels and routes, or the numbers of its channels and routes."""

    problems: list[str]
    channels: int
    routes: int
    variables: list[str]
    files: list[str]


class LimitItem(TypedDict):
    """How long the collector keeps a kind of data; None keeps it for ever. ``fixed`` says why it cannot be saved."""

    name: str
    value: float | None
    source: str
    fixed: str
    saved_at: float | None
    saved_by: str | None


class RemovalItem(TypedDict):
    """The amount of data that a limit would remove; a lower bound if the count was ended early."""

    name: str
    removes: str
    runs: int
    rows: int
    is_complete: bool


class AuditItem(TypedDict):
    """One change that somebody made."""

    at: float
    by: str
    project: str | None
    action: str
    target: str
    detail: str
