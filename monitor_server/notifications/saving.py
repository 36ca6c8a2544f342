"""Saves channels and routes: each version is recorded, and the channels of the version before it are notified."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller
from monitor_server.durations import DAY_SECONDS, HOUR_SECONDS
from monitor_server.errors import InvalidField, SettingsConflict
from monitor_server.notifications.configuration.editing import describe_document_changes, plain_document
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.notifications.messages.body import build_body
from monitor_server.notifications.messages.wording import sentence
from monitor_server.store.encoding.stored_json import showable
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.notification_documents import StoredDocument
from monitor_server.store.repositories.notifications.messages import FORMER
from monitor_server.text_safety.printable import printable

__all__ = ["SaveRequest", "check_text", "refuse_other_version", "save_document"]

KEPT_VERSIONS: Final = 20
# Versions of the last seven days are kept even if somebody saves many at once.
KEPT_SECONDS: Final = 7 * DAY_SECONDS
LONGEST_CHANGES: Final = 1_500
# A channel receives at most this many notices of one severity within an hour.
MAX_NOTICES: Final = 20
LONGEST_DOCUMENT: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRequest:
    """A request to save channels and routes: the author, the time, and the version that the author edited.

    Attributes:
        version: The version that was in force when the author began to edit.
        author: The caller who saves.
        by: The name that the author gives.
        now: Seconds since the epoch.
        public_url: The address of the dashboard, for the message to the channels.
    """

    version: int
    author: Caller
    by: str
    now: float
    public_url: str


def check_text(document: Mapping[str, Any]) -> None:
    """Refuse a document that contains text that no JSON answer can hold, or that is longer than any useful document.

    Raises:
        InvalidField: If it is such a document.
    """
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidField("settings must be Unicode text, got a lone surrogate") from None
    if (length := len(json.dumps(document))) > LONGEST_DOCUMENT:
        raise InvalidField(f"channels and routes must have at most {LONGEST_DOCUMENT:,} characters, got {length:,}")


def refuse_other_version(repositories: Repositories, version: int) -> None:
    """Refuse a change of a version that is no longer in force.

    Raises:
        SettingsConflict: If another version is in force.
    """
    newest = repositories.notification_documents.newest_version()
    if newest == version:
        return
    stored = repositories.notification_documents.find(newest)
    who = "" if stored is None else f", by {printable(stored.saved_by, longest=100)}"
    raise SettingsConflict(
        f"version must be the one that is in force, {newest}{who}, got {version}: look at what has changed, and save "
        "again"
    )


def save_document(
    repositories: Repositories, before: NotificationFile, after: NotificationFile, saving: SaveRequest
) -> StoredDocument:
    """Put channels and routes into force in an open transaction.

    One transaction contains the version, the entry in the audit log, and a message to each channel that was in force
    before. So the thief of a key cannot redirect notifications without notice to their previous recipients.

    Args:
        repositories: An open transaction.
        before: The document in force.
        after: The new document.
        saving: The author, the time and the edited version.

    Raises:
        SettingsConflict: If another person has saved meanwhile; nothing was changed.
    """
    documents = repositories.notification_documents
    documents.lock()
    refuse_other_version(repositories, saving.version)
    changes = printable(describe_document_changes(before, after), longest=LONGEST_CHANGES)
    saved = StoredDocument(
        version=saving.version + 1,
        saved_at=saving.now,
        saved_by=saving.author.signature(saving.by),
        changes=changes,
        document=plain_document(after),
    )
    documents.add(saved)
    documents.remove_old(kept=KEPT_VERSIONS, before=saving.now - KEPT_SECONDS)
    record_change(
        repositories, saving.author, "notifications.change", f"version {saved.version} of the channels and routes",
        now=saving.now, by=saving.by, detail=changes,
    )  # fmt: skip
    for name in before.channels:
        _tell(repositories, name, saved, severity=_severity(before, after, name), public_url=saving.public_url)
    return saved


def _severity(before: NotificationFile, after: NotificationFile, name: str) -> Literal["critical", "warning"]:
    """Return the severity of a change for a channel: critical if the channel may receive less, or later, than before.

    Each severity has its own limit of notices, so that minor changes do not use up the notices of a removal.
    """
    is_minor = _delivery(before, name) == _delivery(after, name)
    return "warning" if is_minor else "critical"


def _delivery(file: NotificationFile, name: str) -> tuple[object, ...]:
    """Return what decides whether and when messages to a channel arrive and are believed: all but their form."""
    channel = file.channels.get(name)
    reach = None if channel is None else (channel.type, channel.url, getattr(channel, "secret", None))
    return reach, file.routes, file.match, file.grouping, file.limits, file.fallback


def _tell(
    repositories: Repositories,
    name: str,
    saved: StoredDocument,
    *,
    severity: Literal["critical", "warning"],
    public_url: str,
) -> None:
    """Write a message to a channel as it was before the change, whatever has changed in it."""
    messages, now = repositories.notification_messages, saved.saved_at
    if messages.notices_since(name, severity=severity, since=now - HOUR_SECONDS) >= MAX_NOTICES:
        return
    message_id = uuid.uuid4().hex
    body = build_body(
        message_id=message_id,
        channel=name,
        created_at=now,
        severity=severity,
        alerts=[],
        counts={"alerts": 0, "runs": 0, "changes": {}, "kinds": {}, "projects": {}},
        public_url=public_url,
        notice=sentence(f"{saved.saved_by} has changed the channels and routes of notifications: {saved.changes}")
        + " If nobody in your team did this, revoke the key (rlvitals keys revoke) and restore the previous version.",
    )
    channel = f"{name}{FORMER}{saved.version - 1}"
    messages.add_notice(message_id, channel, json.dumps(showable(body)).encode(), severity=severity, now=now)
