"""The callbacks of the buttons beside the rules: edit, switch on or off, delete."""

from collections.abc import Mapping, Sequence
from typing import Final

from dash import ALL, Dash, Input, Output, ctx, no_update

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.collector_client.types.alerts import RULE_PREFIX
from dashboard.components.choices import choosable
from dashboard.components.rules.form_values import FIELDS, RUNS, encode_edited_rule, fields_of
from dashboard.components.rules.tables import rule_table
from dashboard.components.run_choice import run_options
from dashboard.ids import rules as rule_ids
from dashboard.pages.confirmation import register_confirmation
from dashboard.pages.read_again import read_again, read_when_seen
from dashboard.pages.run_choice import OFFERED

__all__ = ["register"]

PARTS: Final = 3 + len(RUNS) + 2 * len(FIELDS)  # outputs of a form that is filled: each field and its problem


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def act(clicks: Sequence[int | None]) -> tuple[object, object]:
        chosen = ctx.triggered_id
        if not any(clicks) or not chosen or chosen["action"] not in {"on", "off"}:
            return no_update, no_update
        async with ApiClient(api_url) as api:
            try:
                message = await _switch(api, chosen["rule"], is_wanted=chosen["action"] == "on")
            except ApiError as error:
                message = describe_failure("Not done.", error)
            return message, await read_again(_rules(api))

    async def fill(edits: Sequence[int | None], cleared: int | None) -> tuple[object, ...]:
        chosen = ctx.triggered_id
        if chosen == rule_ids.NEW and cleared:
            return None, "A new rule", "", *[no_update for _ in RUNS], *_form(fields_of({})), *[""] * len(FIELDS)
        if not isinstance(chosen, dict) or not any(edits):
            return (no_update,) * PARTS
        try:
            async with ApiClient(api_url) as api:
                found = await api.rules.get(chosen["rule"])
                if found["rule"] is None:
                    return no_update, no_update, f"Not read. {found['stated']}", *[no_update] * (PARTS - 3)
                fields = fields_of(found["rule"])
                offered = await _offer(api, [fields[name] for name in RUNS])
        except ApiError as error:
            return no_update, no_update, f"Not read. {error}", *[no_update] * (PARTS - 3)
        title = f"Change the rule {found['rule']['name']}"
        return encode_edited_rule(found), title, "", *offered, *_form(fields), *[""] * len(FIELDS)

    state = Output(rule_ids.STATE, "children", allow_duplicate=True)
    rules = Output(rule_ids.LIST, "children", allow_duplicate=True)
    form = [Output(rule_ids.field(name), "value") for name in FIELDS]
    problems = [Output(rule_ids.problem(name), "children", allow_duplicate=True) for name in FIELDS]
    runs = [Output(rule_ids.field(name), "options") for name in RUNS]
    heading = [Output(rule_ids.EDITED, "data"), Output(rule_ids.FORM_TITLE, "children"), state]
    app.callback(state, rules, Input(rule_ids.button(ALL, ALL), "n_clicks"), prevent_initial_call=True)(act)
    read_when_seen(app, api_url, listed=rule_ids.LIST, seen=rule_ids.SEEN, read=_rules)
    edits, cleared = Input(rule_ids.button("edit", ALL), "n_clicks"), Input(rule_ids.NEW, "n_clicks")
    app.callback(*heading, *runs, *form, *problems, edits, cleared, prevent_initial_call=True)(fill)
    _register_deletion(app, api_url, state, rules)


def _register_deletion(app: Dash, api_url: str, state: Output, rules: Output) -> None:
    """Register the question before a rule is deleted, and the deletion."""

    async def ask(button: Mapping[str, str]) -> tuple[object, ...]:
        rule_id = button["rule"]
        async with ApiClient(api_url) as api:
            try:
                name = (await api.rules.get(rule_id))["kind"].removeprefix(RULE_PREFIX)
            except ApiError as error:
                return no_update, no_update, no_update, f"Not deleted. {error}", await read_again(_rules(api))
        question = f"Delete the rule {name}? Its alerts are resolved. This cannot be undone."
        return True, question, rule_id, "", no_update

    async def delete(rule_id: str) -> tuple[object, object]:
        async with ApiClient(api_url) as api:
            try:
                await api.rules.delete(rule_id)
                message = "Deleted. Its alerts are resolved within seconds."
            except ApiError as error:
                message = describe_failure("Not deleted.", error)
            return message, await read_again(_rules(api))

    register_confirmation(
        app,
        dialog=rule_ids.CONFIRMED,
        chosen=rule_ids.CHOSEN,
        pressed=Input(rule_ids.button("delete", ALL), "n_clicks"),
        ask=ask,
        act=delete,
        answers=[state, rules],
        refusals=[state, rules],
    )


async def _switch(api: ApiClient, rule_id: str, *, is_wanted: bool) -> str:
    """Switch a rule, even if another person has changed it since, and return a message about it."""
    found, action = await api.rules.get(rule_id), "on" if is_wanted else "off"
    rule = found["rule"]
    if rule is None:
        return f"Not done. {found['stated']}"
    if bool(rule.get("enabled", True)) == is_wanted:
        return f"It was switched {action} already."
    await api.rules.save(rule_id, {**rule, "enabled": is_wanted}, version=found["version"])
    return f"Switched {action}."


async def _rules(api: ApiClient) -> object:
    return rule_table(await api.rules.all())


async def _offer(api: ApiClient, run_ids: Sequence[object]) -> list[list[dict[str, str]]]:
    """Return the options of each choice of a run, with the rule's run: a control drops a value without an option."""
    found = await api.runs.matching(limit=OFFERED)
    offered = []
    for run_id in run_ids:
        kept = choosable([str(run_id)] if run_id else [])
        options = run_options(found, await api.runs.some(kept))
        known = {option["value"] for option in options}
        lost = [{"value": run, "label": f"{run} · not stored"} for run in kept if run not in known]
        offered.append([*options, *lost])
    return offered


def _form(fields: dict[str, object]) -> list[object]:
    empty = dict.fromkeys(RUNS)
    return [empty.get(name, "") if fields[name] is None else fields[name] for name in FIELDS]
