"""Functions for the callbacks of channels and routes: they save a change, and show the settings after it."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from dash import Output, State, no_update

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError
from dashboard.collector_client.types.administration import NotificationSettings
from dashboard.components.settings.channel_forms import SHOWN_VERSIONS, channel_names, channels_shown
from dashboard.ids.settings import channels as channel_ids
from dashboard.ids.settings import forms as form_ids

__all__ = ["SHOWN", "Change", "again", "problems_of", "read_settings", "save_change", "values_of"]

SAVE_SECONDS: Final = 60.0  # the collector checks the addresses with Apprise
Change = Callable[[NotificationSettings], dict[str, Any]]
WITH_NAMES: Final = (("route", "channels"), ("route", "escalate"))
SHOWN: Final = [
    Output(channel_ids.CHANNELS, "children"),
    *(Output(form_ids.field(form, name), "options") for form, name in WITH_NAMES),
]


async def save_change(
    api_url: str, version: int, change: Change | None, *, restored: int = 0
) -> tuple[ApiError | None, NotificationSettings | None, list[object]]:
    """Save a change to the version that the page shows, or restore a version.

    If another person has saved meanwhile, the page shows that person's version, so that the user sees it before saving
    again.

    Returns:
        The problem, or None; the settings that were saved, or None; and the components to show.
    """
    async with ApiClient(api_url, timeout_seconds=SAVE_SECONDS) as api:
        try:
            if change is None:
                saved = await api.notifications.restore(version, restored)
            else:
                saved = await api.notifications.save(version, change(await api.notifications.settings()))
            return None, saved, await _show(api, saved)
        except ApiError as error:
            problem = error
        with contextlib.suppress(ApiError):  # the page stays as it is, and the problem is stated
            held = await api.notifications.settings()
            if held["version"] != version:
                return problem, None, await _show(api, held)
        return problem, None, [no_update] * len(SHOWN)


async def _show(api: ApiClient, settings: NotificationSettings) -> list[object]:
    """Return the components that show the settings; if they cannot be read, the page keeps those that it has."""
    try:
        shown = channels_shown(
            settings, await api.notifications.channels(), await api.notifications.versions(limit=SHOWN_VERSIONS)
        )
    except ApiError:
        return [no_update] * len(SHOWN)
    return [shown, *[channel_names(settings)] * len(WITH_NAMES)]


async def read_settings(api_url: str) -> NotificationSettings | str:
    """Return the settings, or why they cannot be read."""
    try:
        async with ApiClient(api_url) as api:
            return await api.notifications.settings()
    except ApiError as error:
        return f"Not read. {error}"


def values_of(form: str, names: Sequence[str]) -> list[State]:
    """Return the values of the fields of a form, as arguments of a callback."""
    return [State(form_ids.field(form, name), "value") for name in names]


def problems_of(form: str, names: Sequence[str]) -> list[Output]:
    """Return the places for the problems of a form's fields, as outputs of a callback."""
    return [Output(form_ids.problem(form, name), "children") for name in names]


def again(outputs: Sequence[Output]) -> list[Output]:
    """Return outputs that another callback may also write."""
    return [Output(out.component_id, out.component_property, allow_duplicate=True) for out in outputs]
