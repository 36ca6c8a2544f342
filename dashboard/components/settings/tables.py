"""Draws keys, channels, projects and changes as tables, each row with its buttons."""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.administration import (
    AuditItem,
    ChannelItem,
    KeyItem,
    LimitItem,
    Route,
    VersionItem,
)
from dashboard.collector_client.types.runs import RunGroupItem
from dashboard.components.settings.retention_wording import RETENTION, limit_in_words
from dashboard.components.small_elements import badge, since
from dashboard.ids.settings import channels as channel_ids
from dashboard.ids.settings import keys as key_ids
from dashboard.ids.settings import projects as project_ids

__all__ = [
    "audit_table",
    "channel_table",
    "describe_route",
    "key_table",
    "project_table",
    "retention_table",
    "route_table",
    "version_table",
]

NONE: Final = "–"
RUN_CHANGES: Final = ("run.label", "run.reset")  # in the audit log, whose targets are runs


def key_table(keys: Sequence[KeyItem]) -> Component:
    """Return the keys, valid keys first; a valid key can be revoked."""
    rows = [
        (
            key["name"],
            key["scope"],
            key["project"] or "all",
            key["state"],
            since(key["created_at"]),
            since(key["last_used_at"]),
            since(key["expires_at"]) if key["state"] == "expired" else _until(key["expires_at"]),
            _button("Revoke", key_ids.revoke(key["id"]), key["name"]) if key["state"] == "active" else NONE,
        )
        for key in sorted(keys, key=lambda key: key["state"] != "active")
    ]
    heads = ("name", "scope", "project", "state", "made", "last used", "expires", "")
    return _table(
        heads,
        rows,
        empty="No key exists yet. Create the first one on the machine of the database: rlvitals keys create NAME",
    )


def channel_table(channels: Sequence[ChannelItem], *, is_editable: bool = False) -> Component:
    """Return the channels with their waiting events and the result of their last message; each can be tested."""
    rows = [
        (
            channel["name"],
            channel["type"],
            channel["address"],
            badge("severity", "critical", text="failing") if channel["is_failing"] else "works",
            str(channel["waiting"]),
            since(channel["last_sent_at"]),
            channel["last_error"] or NONE,
            html.Div(_channel_buttons(channel["name"], is_editable=is_editable), className="rule-buttons"),
        )
        for channel in channels
    ]
    heads = ("channel", "type", "address", "state", "waiting", "last sent", "last error", "")
    empty = (
        "Nobody is notified yet. A channel is an address that alerts are sent to, such as one of Slack. Add the "
        "first channel; it then gets every alert of severity warning or critical."
        if is_editable
        else "No channel is set up."
    )
    return _table(heads, rows, empty=empty)


def _channel_buttons(name: str, *, is_editable: bool) -> list[Component]:
    changes = ("edit", "Edit"), ("remove", "Remove")
    test = _button("Send a test", channel_ids.test(name), name)
    edits = [_button(label, channel_ids.button(action, name), name) for action, label in changes]
    return [test, *edits] if is_editable else [test]


def route_table(routes: Sequence[Route], *, match: str, is_editable: bool) -> Component:
    """Return which alerts go to which channels, in the order in which the collector tries the routes."""
    rows = [
        (
            f"{number + 1}.",
            ", ".join(route["channels"]),
            describe_route(route),
            html.Div(_route_buttons(number), className="rule-buttons") if is_editable else NONE,
        )
        for number, route in enumerate(routes)
    ]
    rule = "the first route that fits is used" if match == "first" else "all routes that fit are used"
    return _table((f"route ({rule})", "to", "which alerts", ""), rows, empty="")


def describe_route(route: Route) -> str:
    """Return in words which alerts a route is for."""
    days = f" on {', '.join(route['days'])}" if route["days"] else ""
    hours = f" at {route['hours']} ({route['time_zone']})" if route["hours"] else ""
    parts = [
        f"{route['severity']} and more severe" if route["severity"] != "critical" else "critical",
        f"of {', '.join(route['projects'])}" if route["projects"] else "of every project",
        f"of the kinds {', '.join(route['kinds'])}" if route["kinds"] else "",
        f"{days}{hours}".strip(),
        "" if route["resolved"] else "but not when they are resolved",
        *(
            f"and to {', '.join(level['channels'])} if nobody acknowledges within {level['after_minutes']:g} min"
            for level in route["escalate"]
        ),
    ]
    return ", ".join(part for part in parts if part)


def _route_buttons(number: int) -> list[Component]:
    target = f"route {number + 1}"
    actions = [("edit", "Edit"), *([("up", "Up")] if number else []), ("remove", "Remove")]
    return [_button(label, channel_ids.route_button(action, number), target) for action, label in actions]


def version_table(versions: Sequence[VersionItem], *, current: int) -> Component:
    """Return the saved versions of channels and routes, the newest first; an earlier version can be restored."""
    rows = [
        (
            str(version["version"]),
            since(version["saved_at"]),
            version["saved_by"],
            version["changes"],
            "in force"
            if version["version"] == current
            else _button("Restore", channel_ids.version_restore(version["version"]), f"version {version['version']}"),
        )
        for version in versions
    ]
    return _table(("version", "saved", "by", "what changed", ""), rows, empty="Nothing was saved yet.")


def project_table(projects: Sequence[RunGroupItem], *, is_editable: bool) -> Component:
    """Return the projects with their number of runs; who may delete can delete a project with all of them."""
    rows = []
    for project in sorted(projects, key=lambda each: each["name"] or ""):
        name = project["name"] or ""
        delete = _button("Delete", project_ids.delete(name), name) if is_editable else NONE
        rows.append((name, f"{project['runs']:,}", since(project["last_seen"]), delete))
    return _table(("project", "runs", "last seen", ""), rows, empty="No project has a run.")


def audit_table(entries: Sequence[AuditItem]) -> Component:
    """Return who changed what, the newest first."""
    rows = [
        (since(entry["at"]), entry["by"], entry["action"], entry["project"] or NONE, _target(entry), entry["detail"])
        for entry in entries
    ]
    return _table(("when", "by", "action", "project", "target", "detail"), rows, empty="Nothing was changed yet.")


def _target(entry: AuditItem) -> Component | str:
    """Return the target of a change; a run that may still exist is a link to its page."""
    is_run = entry["action"] in RUN_CHANGES
    return dcc.Link(entry["target"], href=f"/runs/{entry['target']}") if is_run else entry["target"]


def retention_table(limits: Sequence[LimitItem]) -> Component:
    """Return which data is removed and after how long, and the person or the setting that states it."""
    rows = [
        (
            RETENTION.get(limit["name"], (limit["name"], ""))[0],
            limit_in_words(limit["name"], limit["value"]),
            limit["saved_by"] or limit["fixed"] or "nobody: the default",
        )
        for limit in limits
    ]
    return _table(("what is removed", "kept for", "set by"), rows, empty="")


def _until(epoch: float | None) -> Component | str:
    return "never" if epoch is None else html.Time(className="until", **{"data-until": f"{epoch:.3f}"})


def _button(label: str, name: dict[str, str], target: str) -> Component:
    return html.Button(label, id=name, className="quiet", **{"aria-label": f"{label}: {target}"})


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> Component:
    if not rows:
        return html.P(empty, className="calm")
    head = html.Thead(html.Tr([html.Th(name, scope="col") if name else html.Td() for name in heads]))
    body = [html.Tr([html.Th(first, scope="row"), *map(html.Td, rest)]) for first, *rest in rows]
    return html.Div(html.Table([head, html.Tbody(body)]), className="scroll", tabIndex="0")
