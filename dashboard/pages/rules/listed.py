"""The callbacks of the buttons beside the rules: edit, switch on or off, delete."""

from collections.abc import Sequence

from dash import ALL, Dash, Input, Output, ctx, no_update
from dash.development.base_component import Component

from dashboard import ids
from dashboard.api.client import ApiClient
from dashboard.api.errors import ApiError
from dashboard.components.rules.stated_rule import FIELDS, fields_of
from dashboard.components.rules.tables import rule_table

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
        if chosen == ids.RULE_NEW and cleared:
            return None, "A new rule", "", *_form(fields_of({}))
        if not isinstance(chosen, dict) or not any(edits):
            return (no_update,) * (3 + len(FIELDS))
        try:
            async with ApiClient(api_url) as api:
                found = await api.rule(chosen["rule"])
        except ApiError as error:
            return no_update, no_update, f"Not read. {error}", *[no_update for _ in FIELDS]
        if found["rule"] is None:
            return no_update, no_update, f"Not read. {found['stated']}", *[no_update for _ in FIELDS]
        return found["id"], f"Change the rule {found['rule']['name']}", "", *_form(fields_of(found["rule"]))

    state = Output(ids.RULE_STATE, "children", allow_duplicate=True)
    rules = Output(ids.RULES_LIST, "children", allow_duplicate=True)
    form = [Output(ids.rule_field(name), "value") for name in FIELDS]
    heading = [Output(ids.RULE_EDITED, "data"), Output(ids.RULE_FORM_TITLE, "children"), state]
    app.callback(state, rules, Input(ids.rule_button(ALL, ALL), "n_clicks"), prevent_initial_call=True)(act)
    edits, cleared = Input(ids.rule_button("edit", ALL), "n_clicks"), Input(ids.RULE_NEW, "n_clicks")
    app.callback(*heading, *form, edits, cleared, prevent_initial_call=True)(fill)


async def _act(api: ApiClient, action: str, rule_id: str) -> tuple[str, Component]:
    if action == "delete":
        await api.delete_rule(rule_id)
        return "Deleted. Its alerts are resolved within seconds.", rule_table(await api.rules())
    found = await api.rule(rule_id)
    rule = found["rule"]
    if rule is None:
        return f"Not done. {found['stated']}", rule_table(await api.rules())
    is_enabled = bool(rule.get("enabled", True))
    await api.save_rule(rule_id, {**rule, "enabled": not is_enabled})
    return "Switched off." if is_enabled else "Switched on.", rule_table(await api.rules())


def _form(fields: dict[str, object]) -> list[object]:
    return ["" if fields[name] is None else fields[name] for name in FIELDS]
