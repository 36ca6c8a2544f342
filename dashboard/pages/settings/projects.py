"""The callbacks of projects: they delete a project after a confirmation, and read the list again with the tab."""

import asyncio
from collections.abc import Awaitable, Mapping

from dash import ALL, Dash, Input, Output, no_update
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.components.settings.tables import project_table
from dashboard.ids.settings import projects as project_ids
from dashboard.pages.confirmation import register_confirmation
from dashboard.pages.read_again import read_again, read_when_seen

__all__ = ["read_project_table", "register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def ask(button: Mapping[str, str]) -> tuple[object, ...]:
        name = button["project"]
        question = f"Delete the project {name} with all its runs, silences and saved views? This cannot be undone."
        return True, question, name

    async def delete_project(name: str) -> tuple[object, object]:
        try:
            async with ApiClient(api_url) as api:
                await api.runs.delete_project(name)
                return f"{name} is deleted.", await read_again(read_project_table(api))
        except ApiError as error:
            return describe_failure("Not deleted.", error), no_update

    read_when_seen(app, api_url, listed=project_ids.LIST, seen=project_ids.SEEN, read=read_project_table)
    register_confirmation(
        app,
        dialog=project_ids.CONFIRMED,
        chosen=project_ids.CHOSEN,
        pressed=Input(project_ids.delete(ALL), "n_clicks"),
        ask=ask,
        act=delete_project,
        answers=[Output(place, "children") for place in (project_ids.STATE, project_ids.LIST)],
    )


async def read_project_table(api: ApiClient, is_admin: Awaitable[bool] | None = None) -> Component:
    """Read the projects and whether the caller may delete them, and return their table.

    Args:
        api: The collector.
        is_admin: Whether the caller may do everything, if the page reads that for other sections too.
    """
    projects, is_editable = await asyncio.gather(api.runs.groups("project", {}), is_admin or api.keys.is_admin())
    return project_table(projects, is_editable=is_editable)
