"""The callbacks of the form of a rule: its parts, the dry run, and saving."""

from dash import Dash, Input, Output, State, no_update

from dashboard import ids
from dashboard.api.client import ApiClient
from dashboard.api.errors import ApiError
from dashboard.components.rules.stated_rule import FIELDS, rule_of, shown_parts
from dashboard.components.rules.tables import dry_run_table, rule_table

__all__ = ["register"]

PARTS = tuple(shown_parts(None, None))
DRY_RUN_SECONDS = 60.0


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    def show_parts(condition: str, operator: str) -> list[bool]:
        shown = shown_parts(condition, operator)
        return [not shown[name] for name in PARTS]

    async def try_rule(clicks: int | None, run_id: str | None, *values: object) -> object:
        if not clicks:
            return no_update
        if not run_id:
            return "Choose the recorded run to try the rule on."
        try:
            async with ApiClient(api_url, timeout_seconds=DRY_RUN_SECONDS) as api:
                return dry_run_table(await api.try_rule(run_id, rule_of(dict(zip(FIELDS, values, strict=True)))))
        except ApiError as error:
            return f"Not tried. {error}"

    async def save(clicks: int | None, edited: str | None, *values: object) -> tuple[object, object]:
        if not clicks:
            return no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                saved = await api.save_rule(edited, rule_of(dict(zip(FIELDS, values, strict=True))))
                return f"Saved: {saved['stated']}", rule_table(await api.rules())
        except ApiError as error:
            return f"Not saved. {error}", no_update

    fields = [State(ids.rule_field(name), "value") for name in FIELDS]
    hidden = [Output(ids.rule_part(name), "hidden") for name in PARTS]
    condition, operator = (Input(ids.rule_field(name), "value") for name in ("condition", "operator"))
    app.callback(hidden, condition, operator)(show_parts)
    tried, run = Output(ids.RULE_TRIED, "children"), State(ids.RULE_TRIED_RUN, "value")
    app.callback(tried, Input(ids.RULE_TRY, "n_clicks"), run, *fields, prevent_initial_call=True)(try_rule)
    saved = (Output(ids.RULE_STATE, "children"), Output(ids.RULES_LIST, "children"))
    edited = State(ids.RULE_EDITED, "data")
    app.callback(*saved, Input(ids.RULE_SAVE, "n_clicks"), edited, *fields, prevent_initial_call=True)(save)
