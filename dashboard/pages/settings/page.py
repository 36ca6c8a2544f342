"""The page of settings, at ``/settings``: keys, channels, projects, retention, and who changed what."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, UnreachableError
from dashboard.collector_client.types.administration import (
    ChannelItem,
    KeyItem,
    LimitItem,
    NotificationSettings,
    VersionItem,
)
from dashboard.components.page_frame import waiting
from dashboard.components.settings.channel_forms import (
    SHOWN_VERSIONS,
    channel_form,
    channel_names,
    channels_in_file,
    channels_shown,
    route_form,
)
from dashboard.components.settings.file_check import file_check
from dashboard.components.settings.key_form import key_form
from dashboard.components.settings.retention_form import retention_shown
from dashboard.components.settings.tables import audit_table, channel_table, key_table
from dashboard.ids import frame as frame_ids
from dashboard.ids.settings import channels as channel_ids
from dashboard.ids.settings import keys as key_ids
from dashboard.ids.settings import projects as project_ids
from dashboard.ids.settings import retention as retention_ids
from dashboard.pages.settings.projects import read_project_table

__all__ = ["settings_page"]

AUDIT_ENTRIES: Final = 50


async def settings_page(api_url: str) -> Component:
    """Draw the page; a section that the caller's key may not read states the scope that it needs."""
    try:
        async with ApiClient(api_url) as api:
            is_admin = asyncio.ensure_future(api.keys.is_admin())
            keys, channels, projects, retention, audit = await asyncio.gather(
                _section(api.keys.all, _keys),
                _section(lambda: _channels(api), _notifications),
                _section(lambda: read_project_table(api, is_admin), lambda table: table),
                _section(lambda: _retention(api, is_admin), lambda read: retention_shown(*read)),
                _section(lambda: api.audit(limit=AUDIT_ENTRIES), audit_table),
            )
    except UnreachableError as error:
        return waiting("The settings cannot be shown", str(error))
    return html.Div(
        className="settings-page",
        children=[
            dcc.Store(id=frame_ids.LIVE, data={"page": "settings", "title": "Settings"}),
            html.H1("Settings"),
            _card(
                "Keys",
                "Who may do what.",
                keys,
                dcc.ConfirmDialog(id=key_ids.CONFIRMED),
                dcc.Store(id=key_ids.CHOSEN),
                dcc.Store(id=key_ids.SEEN),
            ),
            _card(
                "Notifications",
                "Who is notified of alerts. A change is in force within a second, and the previous channels receive a "
                "message about it.",
                html.P(id=channel_ids.STATE, role="status", className="calm"),
                channels,
                file_check(),
            ),
            _card(
                "Projects",
                "A deletion cannot be undone.",
                html.P(id=project_ids.STATE, role="status", className="calm"),
                html.Div(projects, id=project_ids.LIST),
                dcc.ConfirmDialog(id=project_ids.CONFIRMED),
                dcc.Store(id=project_ids.CHOSEN),
                dcc.Store(id=project_ids.SEEN),
            ),
            _card(
                "Retention",
                "How long data is kept, for all projects. What is removed cannot be brought back (docs/operations.md).",
                html.Div(retention, id=retention_ids.RETENTION),
                html.P(id=retention_ids.STATE, role="status", className="calm"),
                dcc.ConfirmDialog(id=retention_ids.CONFIRMED),
                dcc.Store(id=retention_ids.ASKED),
            ),
            _card("Changes", f"The newest {AUDIT_ENTRIES} changes that people made.", audit),
        ],
    )


async def _channels(
    api: ApiClient,
) -> tuple[Sequence[ChannelItem], NotificationSettings | ApiError, Sequence[VersionItem]]:
    """Read the channels, and their settings or the error that says why the caller may not change them."""
    channels = await api.notifications.channels()
    try:
        settings = await api.notifications.settings()
        versions = await api.notifications.versions(limit=SHOWN_VERSIONS) if settings["source"] == "saved" else []
    except UnreachableError:
        raise
    except ApiError as error:
        return channels, error, []
    return channels, settings, versions


async def _retention(api: ApiClient, is_admin: Awaitable[bool]) -> tuple[Sequence[LimitItem], bool]:
    """Read the limits, and whether the caller may save some."""
    return await asyncio.gather(api.retention.limits(), is_admin)


def _keys(keys: Sequence[KeyItem]) -> Component:
    """Return the keys and the form of a new one; who may read the keys may make some."""
    return html.Div([html.Div(key_table(keys), id=key_ids.LIST), key_form()])


def _notifications(
    read: tuple[Sequence[ChannelItem], NotificationSettings | ApiError, Sequence[VersionItem]],
) -> Component:
    channels, settings, versions = read
    if isinstance(settings, ApiError):
        return html.Div([channel_table(channels), html.P(f"Only shown. {settings}", className="calm")])
    if settings["source"] == "file":
        return html.Div(channels_in_file(settings, channels))
    return html.Div(
        [
            html.Div(channels_shown(settings, channels, versions), id=channel_ids.CHANNELS),
            channel_form(is_open=not channels),
            route_form(channel_names(settings)),
        ]
    )


async def _section(read: Callable[[], Awaitable[Any]], draw: Callable[[Any], Component]) -> Component:
    try:
        return draw(await read())
    except UnreachableError:
        raise
    except ApiError as error:
        return html.P(f"Not shown. {error}", className="calm")


def _card(title: str, hint: str, *parts: Component) -> Component:
    return html.Section([html.H2(title), html.P(hint, className="aside"), *parts], className="card table-card")
