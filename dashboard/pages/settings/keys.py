"""The callbacks of keys: they make a key, show it once, revoke keys, and read the list again with the tab."""

from collections.abc import Mapping
from typing import Final

from dash import ALL, Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, UnconfirmedError, describe_failure
from dashboard.collector_client.types.administration import KeyItem
from dashboard.components.settings.tables import key_table
from dashboard.components.small_elements import since
from dashboard.components.values import read_number
from dashboard.ids.settings import keys as key_ids
from dashboard.pages.confirmation import register_confirmation
from dashboard.pages.read_again import read_again, read_when_seen

__all__ = ["register"]

CHANGES: Final = 1000  # newest changes, which name who revoked a key; the collector returns no more at once


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def make_key(
        clicks: int | None, name: str | None, scope: str, project: str | None, days: str | None
    ) -> tuple[object, object, object]:
        if not clicks:  # the button was drawn and not clicked
            return no_update, no_update, no_update
        if not (name or "").strip():
            refusal = html.P("A key needs a name, such as that of the trainer or the person who uses it.")
            return refusal, no_update, no_update
        try:
            asked = _asked_properties(name, scope, project, days)
        except ValueError as error:
            return html.P(f"Not made. {error}"), no_update, no_update
        async with ApiClient(api_url) as api:
            try:
                made = await api.keys.make(asked)
            except ApiError as error:
                # A key that was made all the same is listed: its text is lost, and the key can be revoked.
                listed = await read_again(_keys(api)) if isinstance(error, UnconfirmedError) else no_update
                return html.P(describe_failure("Not made.", error)), no_update, listed
            keys = await read_again(_keys(api))
        shown = html.Div([html.Code(made["key"]), dcc.Clipboard(content=made["key"], title="Copy the key")])
        return None, [html.P(f"Copy the key {asked['name']} now. It is not shown again."), shown], keys

    # A press that fails, such as a second one for the same name, leaves the key that is shown once where it is.
    made = [Output(place, "children") for place in (key_ids.MESSAGE, key_ids.MADE, key_ids.LIST)]
    again = [Output(place, "children", allow_duplicate=True) for place in (key_ids.MESSAGE, key_ids.LIST)]
    values = [State(name, "value") for name in (key_ids.NAME, key_ids.SCOPE, key_ids.PROJECT, key_ids.DAYS)]
    app.callback(*made, Input(key_ids.MAKE, "n_clicks"), *values, prevent_initial_call=True)(make_key)
    read_when_seen(app, api_url, listed=key_ids.LIST, seen=key_ids.SEEN, read=_keys)
    _register_revocation(app, api_url, again)


def _register_revocation(app: Dash, api_url: str, again: list[Output]) -> None:
    """Register the question before a key is revoked, and the revocation."""

    async def ask(button: Mapping[str, str]) -> tuple[object, ...]:
        key_id, unasked = button["key"], (no_update,) * 3
        try:
            async with ApiClient(api_url) as api:
                key = await _find_key(api, key_id)
                message = await _find_revocation(api, key)
                if message is not None:
                    return *unasked, message, await read_again(_keys(api))
                return True, await _question(api, key_id if key is None else key["name"]), key_id, None, no_update
        except ApiError as error:
            return *unasked, html.P(f"Not revoked. {error}"), no_update

    async def revoke(key_id: str) -> tuple[object, object]:
        return await _revoke(api_url, key_id)

    register_confirmation(
        app,
        dialog=key_ids.CONFIRMED,
        chosen=key_ids.CHOSEN,
        pressed=Input(key_ids.revoke(ALL), "n_clicks"),
        ask=ask,
        act=revoke,
        answers=again,
        refusals=again,
    )


async def _keys(api: ApiClient) -> Component:
    return key_table(await api.keys.all())


async def _find_key(api: ApiClient, key_id: str) -> KeyItem | None:
    return next((key for key in await api.keys.all() if key["id"] == key_id), None)


async def _question(api: ApiClient, name: str) -> str:
    """Return the question whether to revoke a key."""
    own = " This is the key with which you are signed in." if await api.keys.own_name() == name else ""
    return f"Revoke the key {name}? Whoever uses it is refused at once. This cannot be undone.{own}"


async def _revoke(api_url: str, key_id: str) -> tuple[object, object]:
    """Revoke a key, and return a message about it and the keys after it."""
    try:
        async with ApiClient(api_url) as api:
            message = await _find_revocation(api, await _find_key(api, key_id))
            if message is None:
                await api.keys.revoke(key_id)
                message = html.P("Revoked.")
            return message, await read_again(_keys(api))
    except ApiError as error:
        return html.P(describe_failure("Not revoked.", error)), no_update


async def _find_revocation(api: ApiClient, key: KeyItem | None) -> Component | None:
    """Return when a key was revoked, and by whom if the newest changes name that; None if it is not revoked."""
    if key is None or (at := key["revoked_at"]) is None:
        return None
    changes = await api.audit(limit=CHANGES)
    by = next((item["by"] for item in changes if item["action"] == "key.revoke" and item["target"] == key["id"]), None)
    return html.P(["This key was revoked already, ", since(at), "." if by is None else f", by {by}."])


def _asked_properties(name: str | None, scope: str, project: str | None, days: str | None) -> dict[str, object]:
    """Return the properties of the key that the form states.

    Raises:
        ValueError: If the days are no number.
    """
    asked: dict[str, object] = {"name": name, "scope": scope}
    if project:
        asked["project"] = project
    try:
        number = read_number(days)
    except ValueError as error:
        raise ValueError(f"The days until it expires {error}.") from None
    return asked if number is None else asked | {"days": number}
