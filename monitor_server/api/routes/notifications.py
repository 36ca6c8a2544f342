"""The channels of notifications: their status, and a test of one. No answer contains a secret."""

import asyncio
import json
import uuid
from collections.abc import Collection
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field

from monitor_server.access.audit.entries import commit_change
from monitor_server.access.callers import Caller
from monitor_server.api.dependencies import Asking, Collector, Reading, Serving
from monitor_server.api.error_handlers import BODY_REFUSALS, CHANNEL_FAILED, NOT_FOUND
from monitor_server.api.pagination import ItemList
from monitor_server.api.schemas import Body, Schema, Time
from monitor_server.errors import ChannelFailed, InvalidField, StartupError, Unavailable, UnknownChannel
from monitor_server.notifications.channel_alerts import end_failure
from monitor_server.notifications.configuration.checking import check_text
from monitor_server.notifications.configuration.current import CurrentFile
from monitor_server.notifications.configuration.tables import Channel, NotificationFile
from monitor_server.notifications.delivery.channels import deliver
from monitor_server.notifications.delivery.webhook import Cancellation, DeliveryFailed
from monitor_server.notifications.messages.body import build_body
from monitor_server.step_processing.events import AlertChanged
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run

__all__ = ["router"]

router = APIRouter(prefix="/notifications")


class ChannelItem(Schema):
    """A channel, and its status; times are seconds since the epoch.

    ``waiting`` is the number of changes of alerts that it has not received, ``waiting_since`` the time at which the
    oldest became due, and ``is_failing`` means that it does not accept its messages.
    """

    name: str
    type: Literal["apprise", "webhook"]
    address: str
    waiting: int
    waiting_since: Time | None
    is_failing: bool
    failed_attempts: int
    last_error: str | None
    last_sent_at: Time | None
    last_given_up_at: Time | None


class ChannelTest(Schema):
    """A test message was accepted; ``id`` is its key."""

    name: str
    id: str


@router.get("/channels")
def channels(collector: Serving, reading: Reading) -> ItemList[ChannelItem]:
    """List the channels in force, without their secrets."""
    current = collector.notifications
    if isinstance(current, CurrentFile) and collector.notifier is None:
        current.refresh()  # a process that does not notify has no thread for this
    file = collector.channels(reading)
    statuses = reading.channel_statuses.statuses(now=collector.clock())
    failing = reading.channel_statuses.failing(file.channels)
    items = [_item(name, channel, statuses.get(name, {}), failing) for name, channel in sorted(file.channels.items())]
    return ItemList(items=items, next=None)


class ReloadedFile(Schema):
    """The file of notifications that is in force now."""

    channels: int
    routes: int


@router.post("/reload", responses=NOT_FOUND)
async def reload(collector: Serving, asking: Asking) -> ReloadedFile:
    """Read the file of channels and routes again. An unusable file is refused, and changes nothing."""
    current = collector.notifications
    if not isinstance(current, CurrentFile):
        raise UnknownChannel("no file of notifications is set: RLVITALS_NOTIFICATIONS names it at the start")
    try:
        async with collector.settings_turns:
            file = await asyncio.to_thread(current.reload)
    except StartupError as error:
        raise InvalidField(str(error)) from None
    detail = f"{len(file.channels)} channels, {len(file.routes)} routes"
    action, target, now = "notifications.reload", "the file of notifications", collector.clock()
    await asyncio.to_thread(commit_change, collector.store, asking, action, target, now=now, detail=detail)
    if collector.notifier is not None:
        collector.notifier.notify()
    return ReloadedFile(channels=len(file.channels), routes=len(file.routes))


class FileText(Body):
    """The text of a file of channels and routes."""

    text: str = Field(max_length=100_000)


class CheckedFile(Schema):
    """The problems of the text, or the number of its channels and routes.

    The variables and files were not read; the collector needs them when the text is put into force.
    """

    problems: list[str]
    channels: int
    routes: int
    variables: list[str]
    files: list[str]


@router.post("/check", responses=BODY_REFUSALS)
def check(body: FileText) -> CheckedFile:
    """Check the text of a file of channels and routes. Nothing is stored or sent, and no secret is read."""
    return CheckedFile.model_validate(check_text(body.text), from_attributes=True)


@router.post("/channels/{name}/test", responses=NOT_FOUND | CHANNEL_FAILED)
async def test_channel(name: Annotated[str, Path(max_length=40)], collector: Serving, asking: Asking) -> ChannelTest:
    """Send a test message to a channel now, and answer once its receiver has accepted it.

    A collector runs two tests at a time; further ones are answered with 503 and Retry-After.
    """
    if collector.channel_tests.locked():
        raise Unavailable("two channels are being tested, the most at a time; send the request again later")
    async with collector.channel_tests:
        return await _test(name, collector, asking)


async def _test(name: str, collector: Collector, asking: Caller) -> ChannelTest:
    file = await asyncio.to_thread(_in_force, collector)
    if name not in file.channels:
        raise UnknownChannel(f"no channel has the name {name!r}; GET /api/v1/notifications/channels lists them")
    message_id = uuid.uuid4().hex
    body = build_body(
        message_id=message_id,
        channel=name,
        created_at=collector.clock(),
        severity="info",
        alerts=[],
        counts={"alerts": 0, "runs": 0, "changes": {}, "kinds": {}, "projects": {}},
        public_url=collector.settings.link_url,
        is_test=True,
    )
    now = collector.clock()
    await asyncio.to_thread(commit_change, collector.store, asking, "notifications.test", name, now=now)
    try:
        networks = None if collector.notifications is None else collector.notifications.networks
        sent, channel = json.dumps(body).encode(), file.channels[name]
        await asyncio.to_thread(deliver, channel, sent, cancellation=Cancellation(), networks=networks)
    except DeliveryFailed as error:
        raise ChannelFailed(f"the channel {name} did not accept the message: {error}") from None

    def note_accepted(repositories: Repositories) -> list[tuple[Run, Alert]]:
        return end_failure(repositories, name, now=collector.clock())

    changed = await collector.write("notifications", note_accepted)
    events = [AlertChanged(run_id=run.id, run=run.name, project=run.project, alert=alert) for run, alert in changed]
    collector.relay.publish(events)
    return ChannelTest(name=name, id=message_id)


def _in_force(collector: Collector) -> NotificationFile:
    with collector.store.read() as repositories:
        return collector.channels(repositories)


def _item(name: str, channel: Channel, status: dict[str, Any], failing: Collection[str]) -> ChannelItem:
    return ChannelItem(
        name=name,
        type=channel.type,
        address=channel.shown,
        waiting=status.get("waiting", 0),
        waiting_since=status.get("waiting_since"),
        is_failing=name in failing,
        failed_attempts=status.get("failed_attempts", 0),
        last_error=status.get("last_error"),
        last_sent_at=status.get("last_sent_at"),
        last_given_up_at=status.get("last_given_up_at"),
    )
