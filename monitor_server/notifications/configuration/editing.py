"""Converts channels and routes to the form for their editor, which has no secrets, and back.

A secret that the editor leaves out keeps its value.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from monitor_server.notifications.configuration.loading import SECRET_FIELDS, UnusableDocumentError
from monitor_server.notifications.configuration.tables import Channel, NotificationFile
from monitor_server.text_safety.printable import printable

__all__ = ["describe_document_changes", "plain_channel", "plain_document", "with_kept_secrets"]

SETTINGS: Final = ("format", "actions", "picture")
TABLES: Final = ("match", "routes", "grouping", "limits", "fallback")


def plain_document(file: NotificationFile) -> dict[str, Any]:
    """Return the tables of a file as JSON values, with its secrets. Only the store may receive it."""
    channels = {name: plain_channel(channel) for name, channel in file.channels.items()}
    return file.model_dump(mode="json", exclude_none=True) | {"channels": channels}


def plain_channel(channel: Channel) -> dict[str, Any]:
    """Return the table of a channel as JSON values, with its secrets."""
    return channel.model_dump(mode="json") | {field: _secret(channel, field) for field in _secret_fields(channel)}


def with_kept_secrets(given: Mapping[str, Any], before: NotificationFile) -> dict[str, Any]:
    """Return a document in which each omitted secret is that of the channel with the same name.

    A secret is not kept if the address changes, because it would be sent to the owner of the new address.

    Args:
        given: The document from the editor.
        before: The document in force.

    Raises:
        UnusableDocumentError: If a secret must be typed again.
    """
    channels = given.get("channels")
    if not isinstance(channels, dict):
        return dict(given)
    problems: list[str] = []
    filled = {
        name: _fill_channel(str(name), table, before.channels.get(str(name)), problems)
        if isinstance(table, dict)
        else table
        for name, table in channels.items()
    }
    if problems:
        raise UnusableDocumentError(problems)
    return dict(given) | {"channels": filled}


def _fill_channel(name: str, given: Mapping[str, Any], held: Channel | None, problems: list[str]) -> dict[str, Any]:
    table = {"type": "apprise"} | {key: value for key, value in given.items() if value not in ("", None)}
    if held is None or held.type != table["type"]:
        return table
    is_moved = "url" in table and table["url"] != held.url.get_secret_value()
    kept = {field: _secret(held, field) for field in _secret_fields(held) if field not in table}
    if is_moved and kept:
        place = f"channels.{printable(name, longest=40)}"
        problems += [f"{place}.{field} must be written again, because the address changes" for field in sorted(kept)]
    return table | kept


def describe_document_changes(before: NotificationFile, after: NotificationFile) -> str:
    """Describe the changes in words, without secrets; addresses are shown only as in a list of channels."""
    return "; ".join(_changes(before, after)) or "nothing changed"


def _changes(before: NotificationFile, after: NotificationFile) -> Iterator[str]:
    """Yield the changes for existing recipients first, because an attacker could make the list of additions long."""
    for name, old in before.channels.items():
        new = after.channels.get(name)
        if new is None:
            yield f"channel {name} removed (address: {old.shown})"
        elif old != new:
            yield f"channel {name}: {', '.join(_channel_changes(old, new))}"
    for table in TABLES:
        was, now = getattr(before, table), getattr(after, table)
        if was != now:
            count = f" ({len(was)} before, {len(now)} now)" if isinstance(was, list) else ""
            yield f"{table} changed{count}"
    for name, new in after.channels.items():
        if name not in before.channels:
            yield f"channel {name} added, to {new.shown}"


def _channel_changes(old: Channel, new: Channel) -> Iterator[str]:
    if old.type != new.type or _secret(old, "url") != _secret(new, "url"):
        yield f"the address changed from {old.shown} to {new.shown}"
    elif any(_secret(old, field) != _secret(new, field) for field in _secret_fields(new)):
        yield "the signing secret changed"
    for field in SETTINGS:
        was, now = getattr(old, field, None), getattr(new, field, None)
        if was != now and old.type == new.type:
            yield f"{field} changed from {was} to {now}"


def _secret_fields(channel: Channel) -> list[str]:
    return sorted(SECRET_FIELDS & set(type(channel).model_fields))


def _secret(channel: Channel, field: str) -> str:
    return str(getattr(channel, field).get_secret_value())
