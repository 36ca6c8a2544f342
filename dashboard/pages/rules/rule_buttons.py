"""The callbacks of the buttons beside the rules: edit, switch on or off, delete."""

from collections.abc import Sequence

from dash import ALL, Dash, Input, Output, ctx, no_update
from dash.development.base_component import Component

from dashboard.api.client import ApiClient
from dashboard.api.errors import ApiError
from dashboard.components.rules.form_values import FIELDS, fields_of
from dashboard.components.rules.tables import rule_table
from dashboard.ids import rules as rule_ids

__all__ = ["register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def act(clicks: Sequence[int | None]) -> tuple[object, object]:
        chosen = ctx.triggered_id
        if not any(clicks) or not chosen or chosen["action"] == "edit":
            return no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                return await _act(api, chosen["action"], chosen["rule"])
        except ApiError as error:
            return f"Not done. {error}", no_update

    async def fill(edits: Sequence[int | None], cleared: int | None) -> tuple[object, ...]:
        chosen = ctx.triggered_id
        if chosen == rule_ids.NEW and cleared:
            return None, "A new rule", "", *_form(fields_of({}))
        if not isinstance(chosen, dict) or not any(edits):
            return (no_update,) * (3 + len(FIELDS))
        try:
            async with ApiClient(api_url) as api:
                found = await api.rules.get(chosen["rule"])
        except ApiError as error:
            return no_update, no_update, f"Not read. {error}", *[no_update for _ in FIELDS]
        if found["rule"] is None:
            return no_update, no_update, f"Not read. {found['stated']}", *[no_update for _ in FIELDS]
        return found["id"], f"Change the rule {found['rule']['name']}", "", *_form(fields_of(found["rule"]))

    state = Output(rule_ids.STATE, "children", allow_duplicate=True)
    rules = Output(rule_ids.LIST, "children", allow_duplicate=True)
    form = [Output(rule_ids.field(name), "value") for name in FIELDS]
    heading = [Output(rule_ids.EDITED, "data"), Output(rule_ids.FORM_TITLE, "children"), state]
    app.callback(state, rules, Input(rule_ids.button(ALL, ALL), "n_clicks"), prevent_initial_call=True)(act)
    edits, cleared = Input(rule_ids.button("edit", ALL), "n_clicks"), Input(rule_ids.NEW, "n_clicks")
    app.callback(*heading, *form, edits, cleared, prevent_initial_call=True)(fill)


async def _act(api: ApiClient, action: str, rule_id: str) -> tuple[str, Component]:
    if action == "delete":
        await api.rules.delete(rule_id)
        return "Deleted. Its alerts are resolved within seconds.", rule_table(await api.rules.all())
    found = await api.rules.get(rule_id)
    rule = found["rule"]
    if rule is None:
        return f"Not done. {found['stated']}", rule_table(await api.rules.all())
    is_enabled = bool(rule.get("enabled", True))
    await api.rules.save(rule_id, {**rule, "enabled": not is_enabled})
    return "Switched off." if is_enabled else "Switched on.", rule_table(await api.rules.all())


def _form(fields: dict[str, object]) -> list[object]:
    return ["" if fields[name] is None else fields[name] for name in FIELDS]
