"""Saved channels and routes: read, change, and restore an earlier version. No answer contains a secret."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field

from monitor_server.access.callers import Caller
from monitor_server.api.body_fields import By
from monitor_server.api.dependencies import Asking, Collector, Reading, Serving
from monitor_server.api.error_handlers import BODY_REFUSALS, CONFLICT, NOT_FOUND
from monitor_server.api.pagination import Cursor, ItemList, PageLimit, item_list
from monitor_server.api.schemas import Body, Schema, Time
from monitor_server.errors import InvalidField, SettingsConflict, StartupError, UnknownVersion
from monitor_server.ingest.deliveries import wait_in_thread
from monitor_server.notifications.configuration.editing import with_kept_secrets
from monitor_server.notifications.configuration.loading import UnusableDocumentError
from monitor_server.notifications.configuration.stored import SavedDocument, read_saved
from monitor_server.notifications.configuration.tables import (
    Channel,
    Fallback,
    Grouping,
    Limits,
    NotificationFile,
    Route,
)
from monitor_server.notifications.delivery.usability import check_usable
from monitor_server.notifications.saving import SaveRequest, check_text, refuse_other_version, save_document
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.notification_documents import StoredDocument

__all__ = ["router"]

router = APIRouter(prefix="/notifications/settings")

MOST_PROBLEMS = 20
Version = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]


class ChannelSettings(Schema):
    """The settings of a channel; ``address`` is the part that may be shown. A field that its type lacks is null."""

    type: Literal["apprise", "webhook"]
    address: str
    format: str | None
    actions: bool
    picture: bool | None


class NotificationSettings(Schema):
    """The channels and routes in force, without secrets.

    ``source`` is ``file`` if RLVITALS_NOTIFICATIONS names a file. Then only the file is used, and it is changed on the
    machine. ``version`` is 0 if nothing was saved. ``problem`` is the reason for which the newest version
    or file is unusable.
    """

    source: Literal["file", "saved"]
    version: int
    saved_at: Time | None
    saved_by: str | None
    problem: str
    match: Literal["first", "all"]
    channels: dict[str, ChannelSettings]
    routes: list[Route]
    grouping: Grouping
    limits: Limits
    fallback: Fallback | None


class SettingsBody(Body):
    """The tables of the file of notifications, as JSON.

    ``version`` is the version that was read. No channels and routes (``{"channels": {}, "routes": []}``) end
    notifications. A secret that a channel leaves out is kept, unless its address changes.
    """

    version: Version
    settings: dict[str, Any]
    by: By = "somebody"


class RestoreBody(Body):
    """The version that is in force, as far as the caller knows."""

    version: Version
    by: By = "somebody"


class VersionItem(Schema):
    """A version of the channels and routes: its author, and its changes."""

    version: int
    saved_at: Time
    saved_by: str
    changes: str


@router.get("")
def settings(collector: Serving, reading: Reading) -> NotificationSettings:
    """Return the channels and routes in force. Addresses are shortened, and secrets left out."""
    return _answer(collector, reading)


@router.put("", responses=BODY_REFUSALS | CONFLICT)
async def change(body: SettingsBody, collector: Serving, asking: Asking) -> NotificationSettings:
    """Put other channels and routes into force, within a second and without a restart.

    The previous channels receive a message with the author and the changes.
    """
    async with collector.settings_turns:
        return await asyncio.to_thread(
            _save, collector, asking, body, lambda _, before: _fill_secrets(body.settings, before)
        )


@router.get("/versions")
def versions(*, reading: Reading, cursor: Cursor, limit: PageLimit = 100) -> ItemList[VersionItem]:
    """List the saved versions, the newest first: the newest 20 versions, and all of the last seven days."""
    return item_list(
        lambda most: reading.notification_documents.page(limit=most, before=cursor),
        limit=limit,
        item=lambda row: VersionItem(**row),
        cursor=lambda row: row["version"],
    )


@router.post("/versions/{version}/restore", responses=BODY_REFUSALS | NOT_FOUND | CONFLICT)
async def restore(
    version: Annotated[int, Path(ge=1, le=2**31 - 1)], body: RestoreBody, collector: Serving, asking: Asking
) -> NotificationSettings:
    """Restore an earlier version, with its secrets, as a new version."""

    def wanted(reading: Repositories, _: NotificationFile) -> Mapping[str, Any]:
        stored = reading.notification_documents.find(version)
        if stored is None:
            raise UnknownVersion(
                f"version {version} is not kept; GET /api/v1/notifications/settings/versions lists all"
            )
        return stored.document

    async with collector.settings_turns:
        return await asyncio.to_thread(_save, collector, asking, body, wanted)


def _fill_secrets(given: Mapping[str, Any], before: NotificationFile) -> Mapping[str, Any]:
    return {"version": 1} | with_kept_secrets(given, before)


def _save(collector: Collector, author: Caller, body: SettingsBody | RestoreBody, wanted: Any) -> NotificationSettings:  # noqa: ANN401
    """Check the new document outside of the store, then save it; ``wanted`` returns the document."""
    current = collector.notifications
    if not isinstance(current, SavedDocument):
        raise SettingsConflict(
            "channels and routes must be changed in the file that RLVITALS_NOTIFICATIONS names; saved ones are "
            "used only if RLVITALS_NOTIFICATIONS is not set"
        )
    try:
        with collector.store.read() as reading:
            refuse_other_version(reading, body.version)
            before = current.of(reading)
            document = wanted(reading, before)
        check_text(document)
        after = read_saved(document)
        check_usable(after, settings=collector.settings, networks=current.networks)
    except UnusableDocumentError as error:
        raise InvalidField("; ".join(error.problems[:MOST_PROBLEMS])) from None
    except StartupError as error:
        raise InvalidField(str(error)) from None
    if after == before and current.is_newest:  # a save without a change makes neither a version nor a message
        with collector.store.read() as reading:
            return _answer(collector, reading)
    saving = SaveRequest(
        version=body.version,
        author=author,
        by=body.by,
        now=collector.clock(),
        public_url=collector.settings.link_url,
    )

    def write(repositories: Repositories) -> StoredDocument:
        return save_document(repositories, before, after, saving)

    wait_in_thread(collector.submit("notifications", write))
    if collector.notifier is not None:
        collector.notifier.notify()
    with collector.store.read() as reading:
        return _answer(collector, reading)


def _answer(collector: Collector, reading: Repositories) -> NotificationSettings:
    current, file = collector.notifications, collector.channels(reading)
    is_saved = isinstance(current, SavedDocument)
    version = reading.notification_documents.newest_version() if is_saved else 0
    newest = reading.notification_documents.page(limit=1)[0] if version else None
    return NotificationSettings(
        source="saved" if is_saved else "file",
        version=version,
        saved_at=None if newest is None else newest["saved_at"],
        saved_by=None if newest is None else newest["saved_by"],
        problem="" if current is None else current.problem,
        match=file.match,
        channels={name: _settings_of(channel) for name, channel in file.channels.items()},
        routes=file.routes,
        grouping=file.grouping,
        limits=file.limits,
        fallback=file.fallback,
    )


def _settings_of(channel: Channel) -> ChannelSettings:
    return ChannelSettings(
        type=channel.type,
        address=channel.shown,
        format=getattr(channel, "format", None),
        actions=channel.actions,
        picture=getattr(channel, "picture", None),
    )
