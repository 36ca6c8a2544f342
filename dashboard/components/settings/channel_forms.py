"""Draws the forms of channels, routes and delivery, and the lists of channels, routes and versions beside them."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.administration import ChannelItem, NotificationSettings, VersionItem
from dashboard.components.choices import choosable
from dashboard.components.settings.channel_form_values import delivery_fields, fields_of_kind
from dashboard.components.settings.fields import ON_OFF, Fields
from dashboard.components.settings.tables import channel_table, route_table, version_table
from dashboard.ids.settings import channels as channel_ids

__all__ = ["SHOWN_VERSIONS", "channel_form", "channel_names", "channels_in_file", "channels_shown", "route_form"]

SHOWN_VERSIONS: Final = 20
TYPES: Final = {
    "webhook": "webhook: signed JSON to an address of your own",
    "apprise": "Apprise: Slack, Discord, Teams, e-mail, PagerDuty, ntfy and more",
}
FORMATS: Final = {"text": "text", "markdown": "Markdown, where the service shows it"}
SEVERITIES: Final = {"info": "info and more severe", "warning": "warning and more severe", "critical": "critical"}
DAYS: Final = {day: day for day in ("mon", "tue", "wed", "thu", "fri", "sat", "sun")}
MATCHES: Final = {"first": "the first route that fits", "all": "all routes that fit"}


def channel_names(settings: NotificationSettings) -> dict[str, str]:
    """Return the channels as choices of a dropdown."""
    return {name: name for name in choosable(sorted(settings["channels"]))}


def channels_in_file(settings: NotificationSettings, channels: Sequence[ChannelItem]) -> list[Component]:
    """Return the channels and routes in force if a file states them; no page changes these."""
    problem = f"The file was changed and cannot be used; what is shown stays in force: {settings['problem']}"
    return [
        html.P(
            "The file that RLVITALS_NOTIFICATIONS names is in force, and this page can only show it. Change the file "
            "on the machine of the collector; it is applied within a second.",
            className="aside",
        ),
        *([html.P(problem, className="field-problem")] if settings["problem"] else []),
        channel_table(channels),
        route_table(settings["routes"], match=settings["match"], is_editable=False),
    ]


def channels_shown(
    settings: NotificationSettings, channels: Sequence[ChannelItem], versions: Sequence[VersionItem]
) -> list[Component]:
    """Return the channels, routes and earlier versions, each with its buttons."""
    if not settings["version"]:
        return [dcc.Store(id=channel_ids.DRAWN, data=0), channel_table(channels, is_editable=True)]
    problem = f"The newest version cannot be used, and the one before is in force: {settings['problem']}"
    return [
        dcc.Store(id=channel_ids.DRAWN, data=settings["version"]),
        *([html.P(problem, className="field-problem")] if settings["problem"] else []),
        channel_table(channels, is_editable=True),
        *([route_table(settings["routes"], match=settings["match"], is_editable=True)] if settings["routes"] else []),
        _delivery_form(settings),
        html.Details(
            [html.Summary("Earlier versions"), version_table(versions, current=settings["version"])],
            className="settings-form",
        ),
    ]


def channel_form(*, is_open: bool) -> Component:
    """Return the form of a channel, empty."""
    first = next(iter(TYPES))
    fields = Fields("channel", hidden=[name for name, is_shown in fields_of_kind(first).items() if not is_shown])
    return _form(
        channel_ids.FORM,
        html.Span("Add a channel", id=channel_ids.FORM_TITLE),
        [
            dcc.Store(id=channel_ids.EDITED),
            fields.text("name", "Name (small letters, digits, - and _)", maxLength=40),
            fields.choice("type", "Kind", TYPES),
            fields.secret("url", "Address (empty: as before)"),
            fields.secret("secret", "Signing secret (empty: as before)"),
            fields.choice("format", "Messages as", FORMATS),
            fields.choice("picture", "Picture of the run", ON_OFF),
            fields.choice("actions", "Links that act", ON_OFF, value="off"),
        ],
        "Addresses and secrets are not shown again. docs/notifications.md explains each field.",
        [
            ("Save the channel", channel_ids.SAVE, "button"),
            ("Empty the form", channel_ids.NEW, "quiet"),
        ],
        answer=channel_ids.SAVED,
        is_open=is_open,
    )


def route_form(names: dict[str, str]) -> Component:
    """Return the form of a route, empty."""
    fields = Fields("route")
    return _form(
        channel_ids.ROUTE_FORM,
        html.Span("Add a route", id=channel_ids.ROUTE_FORM_TITLE),
        [
            dcc.Store(id=channel_ids.ROUTE_EDITED),
            fields.any_of("channels", "To the channels", names, empty="choose channels"),
            fields.choice("severity", "Alerts", SEVERITIES, value="warning"),
            fields.text("projects", 'Of projects, with commas, such as a, "b, c" (empty: all)'),
            fields.text("kinds", "Of kinds, with commas (empty: all)"),
            fields.any_of("days", "On the days", DAYS, empty="every day"),
            fields.text("hours", "At hours, such as 08:00-18:00", maxLength=20),
            fields.text("time_zone", "Time zone, such as Europe/Berlin", value="UTC", maxLength=60),
            fields.choice("resolved", "Message when it is resolved", ON_OFF),
            fields.number("after_minutes", "If nobody acknowledges within minutes"),
            fields.any_of("escalate", "also to the channels", names, empty="nobody"),
        ],
        "The collector checks the routes in order, from the first. docs/notifications.md explains each field.",
        [("Save the route", channel_ids.ROUTE_SAVE, "button"), ("Empty the form", channel_ids.ROUTE_NEW, "quiet")],
        answer=channel_ids.ROUTE_SAVED,
    )


def _delivery_form(settings: NotificationSettings) -> Component:
    fields, held = Fields("delivery"), delivery_fields(settings)
    numbers = {
        "wait_seconds": "First message after seconds",
        "window_seconds": "Then gather for seconds",
        "messages_per_hour": "Most messages an hour",
        "give_up_hours": "Try a message for hours",
    }
    fallback = fields.any_of(
        "fallback_channel", "Instead of a failing channel", channel_names(settings), empty="none", is_one=True
    )
    return _form(
        None,
        "Delivery: grouping, limits and fallback",
        [
            fields.choice("match", "Which routes count", MATCHES, value=settings["match"]),
            _with_value(fallback, held["fallback_channel"]),
            fields.number("fallback_minutes", "after minutes", value=held["fallback_minutes"]),
            *(fields.number(name, label, value=held[name]) for name, label in numbers.items()),
        ],
        "An empty number field stands for the default.",
        [("Save the delivery", channel_ids.DELIVERY_SAVE, "button")],
        answer=channel_ids.DELIVERY_SAVED,
    )


def _with_value(field: Component, value: object) -> Component:
    field.children[1].value = value
    return field


def _form(
    name: str | None,
    title: Any,  # noqa: ANN401 - what Dash takes as a child
    fields: Sequence[Component],
    hint: str,
    buttons: Iterable[tuple[str, str, str]],
    *,
    answer: str,
    is_open: bool = False,
) -> Component:
    named = {} if name is None else {"id": name}
    made = [html.Button(label, id=button, className=kind) for label, button, kind in buttons]
    return html.Details(
        [
            html.Summary(title),
            html.P(hint, className="aside"),
            html.Div([*fields, html.Div(made, className="field-buttons")], className="fields form-row"),
            html.P(id=answer, role="status", className="calm form-answer"),
        ],
        className="settings-form",
        open=is_open,
        **named,
    )
