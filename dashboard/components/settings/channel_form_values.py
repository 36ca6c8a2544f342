"""Converts the forms of channels and routes to the API's form, and back: pure functions of settings."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dashboard.collector_client.types.administration import NotificationSettings

__all__ = [
    "CHANNEL_FIELDS",
    "DELIVERY_FIELDS",
    "DELIVERY_NUMBERS",
    "ROUTE_FIELDS",
    "channel_fields",
    "delivery_fields",
    "fields_of_kind",
    "move_route_up",
    "problems_by_field",
    "route_fields",
    "with_channel",
    "with_delivery",
    "with_route",
    "without_channel",
    "without_route",
]

CHANNEL_FIELDS: Final = ("name", "type", "url", "secret", "format", "picture", "actions")
ROUTE_FIELDS: Final = (
    "channels", "severity", "projects", "kinds", "days", "hours", "time_zone", "resolved", "after_minutes", "escalate",
)  # fmt: skip
DELIVERY_NUMBERS: Final = (
    "fallback_minutes", "wait_seconds", "window_seconds", "messages_per_hour", "give_up_hours",
)  # fmt: skip
DELIVERY_FIELDS: Final = ("match", "fallback_channel", *DELIVERY_NUMBERS)
OF_TYPE: Final = {"webhook": ("secret",), "apprise": ("format", "picture")}
# Places in the API's problems that have another name in the form.
PLACES: Final = {"fallback": "fallback_channel", "channels": "name", "match": "match"}
REFUSED: Final = "The collector answered 422: "
PLACE: Final = re.compile(
    r"(channels\.[^ ]*|routes\[\d+\][^ ]*|fallback[^ ]*|grouping[^ ]*|limits[^ ]*|match|body\.limits\.[^ ]*) "
)
Settings = dict[str, Any]


def fields_of_kind(kind: str | None) -> dict[str, bool]:
    """Return whether a channel of a kind has each of the form's fields that only some kinds have."""
    return {name: kind == each for each, names in OF_TYPE.items() for name in names}


def with_channel(settings: NotificationSettings, fields: Mapping[str, object]) -> Settings:
    """Return the settings with the channel of the form; the first channel gets a route for alerts from warning on."""
    name, kind = _text(fields.get("name")), _text(fields.get("type")) or "webhook"
    channel: Settings = {"type": kind, "actions": fields.get("actions") == "on"}
    for field in ("url", "secret"):
        given = _text(fields.get(field))
        if given and (field == "url" or field in OF_TYPE.get(kind, ())):
            channel[field] = given
    if kind == "apprise":
        channel |= {"format": _text(fields.get("format")) or "text", "picture": fields.get("picture") != "off"}
    changed = _sendable(settings)
    changed["channels"][name] = channel
    if not changed["routes"]:
        changed["routes"] = [{"channels": [name], "severity": "warning"}]
    return changed


def without_channel(settings: NotificationSettings, name: str) -> Settings:
    """Return the settings without a channel, and without the routes that led only to it."""
    changed = _sendable(settings)
    changed["channels"].pop(name, None)
    routes = []
    for route in changed["routes"]:
        levels = [level | {"channels": _without(level["channels"], name)} for level in route["escalate"]]
        left = {
            "channels": _without(route["channels"], name),
            "escalate": [each for each in levels if each["channels"]],
        }
        if left["channels"]:
            routes.append(route | left)
    fallback = changed.get("fallback")
    if fallback is not None and fallback["channel"] == name:
        del changed["fallback"]
    return changed | {"routes": routes}


def channel_fields(settings: NotificationSettings, name: str) -> dict[str, object]:
    """Return the values of the form's fields for a channel; its address and secret stay empty, which keeps them."""
    empty: dict[str, object] = {
        "name": "", "type": "webhook", "url": "", "secret": "", "format": "text", "picture": "on", "actions": "off",
    }  # fmt: skip
    channel = settings["channels"].get(name)
    if channel is None:
        return empty
    return empty | {
        "name": name, "type": channel["type"], "format": channel["format"] or "text",
        "picture": _switch(channel["picture"] is not False), "actions": _switch(channel["actions"]),
    }  # fmt: skip


def with_route(settings: NotificationSettings, number: int | None, fields: Mapping[str, object]) -> Settings:
    """Return the settings with the route of the form in place of the route ``number``, or at the end."""
    changed = _sendable(settings)
    routes = changed["routes"]
    is_old = number is not None and 0 <= number < len(routes)
    route: Settings = {
        "channels": _to_list(fields.get("channels")),
        "severity": _text(fields.get("severity")) or "warning",
        "projects": _split(fields.get("projects")),
        "kinds": _split(fields.get("kinds")),
        "days": _to_list(fields.get("days")),
        "time_zone": _text(fields.get("time_zone")) or "UTC",
        "resolved": fields.get("resolved") != "off",
        "escalate": routes[number]["escalate"][1:] if is_old and number is not None else [],
    }
    if hours := _text(fields.get("hours")):
        route["hours"] = hours
    level = {"after_minutes": fields.get("after_minutes"), "channels": _to_list(fields.get("escalate"))}
    if level["channels"] or level["after_minutes"] not in (None, ""):
        route["escalate"] = [level, *route["escalate"]]
    changed["routes"] = (
        [*routes[:number], route, *routes[number + 1 :]] if is_old and number is not None else [*routes, route]
    )
    return changed


def without_route(settings: NotificationSettings, number: int) -> Settings:
    """Return the settings without a route."""
    changed = _sendable(settings)
    return changed | {"routes": [route for place, route in enumerate(changed["routes"]) if place != number]}


def move_route_up(settings: NotificationSettings, number: int) -> Settings:
    """Return the settings with a route moved up by one place."""
    changed = _sendable(settings)
    routes = list(changed["routes"])
    if 0 < number < len(routes):
        routes[number - 1], routes[number] = routes[number], routes[number - 1]
    return changed | {"routes": routes}


def route_fields(settings: NotificationSettings, number: int | None) -> dict[str, object]:
    """Return the values of the form's fields for a route, or for a new route."""
    empty: dict[str, object] = {
        "channels": [], "severity": "warning", "projects": "", "kinds": "", "days": [], "hours": "", "time_zone": "UTC",
        "resolved": "on", "after_minutes": None, "escalate": [],
    }  # fmt: skip
    if number is None or not 0 <= number < len(settings["routes"]):
        return empty
    route = settings["routes"][number]
    level = route["escalate"][0] if route["escalate"] else None
    return empty | {
        "channels": route["channels"], "severity": route["severity"], "projects": _join(route["projects"]),
        "kinds": _join(route["kinds"]), "days": route["days"], "hours": route["hours"] or "",
        "time_zone": route["time_zone"], "resolved": _switch(route["resolved"]),
        "after_minutes": None if level is None else level["after_minutes"],
        "escalate": [] if level is None else level["channels"],
    }  # fmt: skip


def with_delivery(settings: NotificationSettings, fields: Mapping[str, object]) -> Settings:
    """Return the settings with the values of the delivery form; a number that is left out has its default."""
    changed = _sendable(settings) | {"match": _text(fields.get("match")) or "first"}
    changed.pop("fallback", None)
    if channel := _text(fields.get("fallback_channel")):
        changed["fallback"] = {"channel": channel} | _numbers(fields, {"fallback_minutes": "after_minutes"})
    changed["grouping"] = _numbers(fields, {name: name for name in ("wait_seconds", "window_seconds")})
    changed["limits"] = _numbers(fields, {name: name for name in ("messages_per_hour", "give_up_hours")})
    return changed


def delivery_fields(settings: NotificationSettings) -> dict[str, object]:
    """Return the values of the delivery form's fields."""
    fallback = settings["fallback"]
    return {
        "match": settings["match"],
        "fallback_channel": None if fallback is None else fallback["channel"],
        "fallback_minutes": None if fallback is None else fallback["after_minutes"],
        **settings["grouping"],
        **settings["limits"],
    }


def problems_by_field(detail: str, fields: Iterable[str]) -> tuple[dict[str, str], str]:
    """Return the API's problems by field of a form, without their places, and the problems of no field.

    Args:
        detail: Problems with their places, such as ``channels.team.url must be set; routes[0].hours must ...``.
        fields: The names of the form's fields.
    """
    found, others = dict.fromkeys(fields, ""), []
    for problem in detail.removeprefix(REFUSED).split("; "):
        place = PLACE.match(problem)
        table, *parts = re.findall(r"[a-z_]+", place[1]) if place else [""]
        # In the place of a channel, the last part is the field, after any name; in that of a route, the first part is.
        names = (*(parts if table == "routes" else parts[::-1]), PLACES.get(table))
        field = next((name for name in names if name in found), None)
        if field is None:
            others.append(problem)
        else:
            found[field] = f"{found[field]} {problem[place.end() :] if place else problem}".strip()
    return found, "; ".join(others)


def _sendable(settings: NotificationSettings) -> Settings:
    """Return settings in the API's form: channels have no address, so that the collector keeps address and secret."""
    channels = {
        name: {field: value for field, value in channel.items() if field != "address" and value is not None}
        for name, channel in settings["channels"].items()
    }
    tables: Settings = {name: settings[name] for name in ("match", "grouping", "limits")}
    routes = [{field: value for field, value in route.items() if value is not None} for route in settings["routes"]]
    if settings["fallback"] is not None:
        tables["fallback"] = settings["fallback"]
    return {**tables, "channels": channels, "routes": routes}


def _numbers(fields: Mapping[str, object], names: Mapping[str, str]) -> Settings:
    return {wanted: fields[name] for name, wanted in names.items() if fields.get(name) not in (None, "")}


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _to_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _split(value: object) -> list[str]:
    """Return the names that commas divide; a name in quotation marks may contain commas."""
    row = next(csv.reader([" ".join(_text(value).splitlines())], skipinitialspace=True), [])
    return [part.strip() for part in row if part.strip()]


def _join(names: Iterable[str]) -> str:
    """Return names as one text, from which `_split` returns the same names."""
    return ", ".join('"' + name.replace('"', '""') + '"' if {*name} & {",", '"'} else name for name in names)


def _without(names: Sequence[str], name: str) -> list[str]:
    return [each for each in names if each != name]


def _switch(is_on: object) -> str:
    return "on" if is_on else "off"
