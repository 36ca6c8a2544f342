"""The callbacks of the form of a rule: its parts, the dry run, and saving."""

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, State, no_update
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.components.rules.form_values import (
    FIELDS,
    RUNS,
    choose_shown_parts,
    encode_edited_rule,
    problems_by_field,
    read_rule_numbers,
    rule_of,
)
from dashboard.components.rules.tables import dry_run_table, rule_table
from dashboard.ids import rules as rule_ids
from dashboard.pages import run_choice
from dashboard.pages.read_again import read_again

__all__ = ["register"]

PARTS = tuple(choose_shown_parts(None, None))
DRY_RUN_SECONDS = 60.0
DELETED = "Not saved. Somebody has deleted this rule meanwhile. Save again to make it anew."


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""
    run_choice.register(app, api_url, rule_ids.TRIED_RUN, *map(rule_ids.field, RUNS))

    async def try_rule(clicks: int | None, run_id: str | None, *values: object) -> tuple[object, ...]:
        if not clicks:
            return (no_update,) * (1 + len(FIELDS))
        if not run_id:
            return "Choose the recorded run to try the rule on.", *[no_update] * len(FIELDS)
        given, wrong = read_rule_numbers(dict(zip(FIELDS, values, strict=True)))
        if any(wrong.values()):
            return "Not tried. ", *wrong.values()
        try:
            async with ApiClient(api_url, timeout_seconds=DRY_RUN_SECONDS) as api:
                tried = await api.rules.dry_run(run_id, rule_of(given))
                return dry_run_table(tried), *[""] * len(FIELDS)
        except ApiError as error:
            found, other = problems_by_field(str(error))
            return f"Not tried. {other}", *found.values()

    async def save(clicks: int | None, edited: dict[str, Any] | None, *values: object) -> tuple[object, ...]:
        if not clicks:
            return (no_update,) * (4 + len(FIELDS))
        given, wrong = read_rule_numbers(dict(zip(FIELDS, values, strict=True)))
        if any(wrong.values()):
            return "Not saved. ", no_update, no_update, no_update, *wrong.values()
        try:
            async with ApiClient(api_url) as api:
                message, title, kept = await _write(api, rule_of(given), edited)
                return message, title, await read_again(_read_table(api)), kept, *[""] * len(FIELDS)
        except ApiError as error:
            found, other = problems_by_field(str(error))
            return describe_failure("Not saved.", error, other), no_update, no_update, no_update, *found.values()

    fields = [State(rule_ids.field(name), "value") for name in FIELDS]
    hidden = [Output(rule_ids.part(name), "hidden") for name in PARTS]
    condition, operator = (Input(rule_ids.field(name), "value") for name in ("condition", "operator"))
    app.callback(hidden, condition, operator)(_show_parts)
    problems = [Output(rule_ids.problem(name), "children", allow_duplicate=True) for name in FIELDS]
    tried, run = Output(rule_ids.TRIED, "children"), State(rule_ids.TRIED_RUN, "value")
    app.callback(tried, *problems, Input(rule_ids.TRY, "n_clicks"), run, *fields, prevent_initial_call=True)(try_rule)
    edited = State(rule_ids.EDITED, "data")
    saved = (
        Output(rule_ids.STATE, "children"),
        Output(rule_ids.FORM_TITLE, "children", allow_duplicate=True),
        Output(rule_ids.LIST, "children"),
        Output(rule_ids.EDITED, "data", allow_duplicate=True),
        *problems,
    )
    app.callback(*saved, Input(rule_ids.SAVE, "n_clicks"), edited, *fields, prevent_initial_call=True)(save)


def _show_parts(condition: str, operator: str) -> list[bool]:
    shown = choose_shown_parts(condition, operator)
    return [not shown[name] for name in PARTS]


async def _write(api: ApiClient, rule: Mapping[str, object], edited: dict[str, Any] | None) -> tuple[str, str, object]:
    """Make a rule or change the edited one; return a message, and the title and the rule of the form from now on."""
    if not isinstance(edited, dict):
        saved = await api.rules.save(None, rule)
    elif all(each["id"] != edited.get("id") for each in await api.rules.all()):
        return DELETED, "A new rule", None
    else:
        saved = await api.rules.save(str(edited.get("id")), rule, version=edited.get("version"))
    return f"Saved: {saved['stated']}", f"Change the rule {rule['name']}", encode_edited_rule(saved)


async def _read_table(api: ApiClient) -> Component:
    return rule_table(await api.rules.all())
