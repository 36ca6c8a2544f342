"""Keys, channels, retention, saved views and the audit log."""

from typing import TypedDict

__all__ = ["AuditItem", "ChannelItem", "CheckedFile", "KeyItem", "RetentionStatus", "ViewItem"]


class ViewItem(TypedDict):
    """A saved view of the fleet; ``query`` holds its settings as they stand in an address."""

    id: str
    name: str
    query: str
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


class ChannelItem(TypedDict):
    """A channel of notifications, and how it goes."""

    name: str
    type: str
    address: str
    waiting: int
    is_failing: bool
    last_error: str | None
    last_sent_at: float | None


class CheckedFile(TypedDict):
    """What must be changed in the text of a file of channels and routes, or how many of them it states."""

    problems: list[str]
    channels: int
    routes: int
    variables: list[str]
    files: list[str]


class RetentionStatus(TypedDict):
    """How long the collector keeps data; None keeps it for good."""

    record_steps: int | None
    record_days: float | None
    response_steps: int
    response_days: float | None
    step_days: float | None
    thinned_steps: int
    run_days: float | None
    audit_days: float


class AuditItem(TypedDict):
    """One change that somebody made."""

    at: float
    by: str
    project: str | None
    action: str
    target: str
    detail: str
