"""The callbacks of projects: they delete a project after a confirmation, and read the list again with the tab."""

import asyncio
from collections.abc import Awaitable

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.components.settings.tables import project_table
from dashboard.ids.settings import projects as project_ids
from dashboard.pages.read_again import read_again, read_when_seen

__all__ = ["read_project_table", "register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    def ask(clicks: list[int | None]) -> tuple[object, object, object]:
        if not any(clicks) or not ctx.triggered_id:
            return no_update, no_update, no_update
        name = ctx.triggered_id["project"]
        return (
            True,
            f"Delete the project {name} with all its runs, silences and saved views? This cannot be undone.",
            name,
        )

    async def delete_project(confirmed: int | None, name: str) -> tuple[object, object]:
        if not confirmed:
            return no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                await api.runs.delete_project(name)
                return f"{name} is deleted.", await read_again(read_project_table(api))
        except ApiError as error:
            return describe_failure("Not deleted.", error), no_update

    read_when_seen(app, api_url, listed=project_ids.LIST, seen=project_ids.SEEN, read=read_project_table)
    app.callback(
        Output(project_ids.CONFIRMED, "displayed"),
        Output(project_ids.CONFIRMED, "message"),
        Output(project_ids.CHOSEN, "data"),
        Input(project_ids.delete(ALL), "n_clicks"),
        prevent_initial_call=True,
    )(ask)
    app.callback(
        Output(project_ids.STATE, "children"),
        Output(project_ids.LIST, "children"),
        Input(project_ids.CONFIRMED, "submit_n_clicks"),
        State(project_ids.CHOSEN, "data"),
        prevent_initial_call=True,
    )(delete_project)


async def read_project_table(api: ApiClient, is_admin: Awaitable[bool] | None = None) -> Component:
    """Read the projects and whether the caller may delete them, and return their table.

    Args:
        api: The collector.
        is_admin: Whether the caller may do everything, if the page reads that for other sections too.
    """
    projects, is_editable = await asyncio.gather(api.runs.groups("project", {}), is_admin or api.keys.is_admin())
    return project_table(projects, is_editable=is_editable)
