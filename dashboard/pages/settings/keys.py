"""The callbacks of keys: make one, show it once, revoke one."""

import re
from typing import Final

from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update

from dashboard.api.client import ApiClient
from dashboard.api.errors import ApiError
from dashboard.components.settings.tables import key_table
from dashboard.ids.settings import keys as key_ids

__all__ = ["register"]

NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def make_key(
        clicks: int | None, name: str | None, scope: str, project: str | None, days: str | None
    ) -> tuple[object, object]:
        if not clicks:  # the button was drawn and not clicked
            return no_update, no_update
        if not (name or "").strip():
            return html.P("A key needs a name, such as that of the trainer or the person who uses it."), no_update
        try:
            asked = _asked(name, scope, project, days)
        except ValueError as error:
            return html.P(f"Not made. {error}"), no_update
        try:
            async with ApiClient(api_url) as api:
                made = await api.keys.make(asked)
                keys = key_table(await api.keys.all())
        except ApiError as error:
            return html.P(f"Not made. {error}"), no_update
        shown = html.Div([html.Code(made["key"]), dcc.Clipboard(content=made["key"], title="Copy the key")])
        return [html.P("Copy the key now. It is not shown again."), shown], keys

    async def revoke_key(clicks: list[int | None]) -> tuple[object, object]:
        if not any(clicks) or not ctx.triggered_id:
            return no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                await api.keys.revoke(ctx.triggered_id["key"])
                return html.P("Revoked."), key_table(await api.keys.all())
        except ApiError as error:
            return html.P(f"Not revoked. {error}"), no_update

    made = (Output(key_ids.MADE, "children"), Output(key_ids.LIST, "children"))
    again = tuple(Output(out.component_id, out.component_property, allow_duplicate=True) for out in made)
    values = [State(name, "value") for name in (key_ids.NAME, key_ids.SCOPE, key_ids.PROJECT, key_ids.DAYS)]
    app.callback(*made, Input(key_ids.MAKE, "n_clicks"), *values, prevent_initial_call=True)(make_key)
    app.callback(*again, Input(key_ids.revoke(ALL), "n_clicks"), prevent_initial_call=True)(revoke_key)


def _asked(name: str | None, scope: str, project: str | None, days: str | None) -> dict[str, object]:
    """Return the key that the form asks for.

    Raises:
        ValueError: If the days are no number.
    """
    asked: dict[str, object] = {"name": name, "scope": scope}
    if project:
        asked["project"] = project
    if text := (days or "").strip():
        if NUMBER.fullmatch(text) is None:
            raise ValueError(f"The days until it expires must be a number above 0, got {text!r}.")
        asked["days"] = float(text)
    return asked
