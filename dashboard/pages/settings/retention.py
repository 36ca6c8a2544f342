"""The callbacks that save limits of retention after a person has confirmed the data that they remove."""

from collections.abc import Mapping
from typing import Final, TypeGuard

from dash import Dash, Input, Output, State, no_update

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.components.settings.channel_form_values import problems_by_field
from dashboard.components.settings.retention_form import LIMIT_FIELDS, retention_shown
from dashboard.components.settings.retention_wording import describe_removals, find_changed_limits
from dashboard.components.values import read_numbers
from dashboard.ids.settings import forms as form_ids
from dashboard.ids.settings import retention as retention_ids
from dashboard.pages.settings.saved_channels import again, problems_of

__all__ = ["register"]

COUNTING_SECONDS: Final = 60.0
NONE_REFUSED: Final = ("",) * len(LIMIT_FIELDS)
CHANGED: Final = (
    "Not saved. Somebody else has changed the same limit since the form was drawn. The form now shows what is in "
    "force: enter your change again."
)


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def ask(clicks: int | None, drawn: object, *values: object) -> tuple[object, ...]:
        if not clicks or not _are_limits(drawn):  # the button was drawn and not clicked
            return (no_update,) * (5 + len(LIMIT_FIELDS))
        given, wrong = read_numbers(dict(zip(LIMIT_FIELDS, values, strict=True)), LIMIT_FIELDS)
        if any(wrong.values()) or not _are_limits(given):
            return False, "", None, "Not saved. ", no_update, *wrong.values()
        return await _ask(api_url, drawn, given)

    async def save(confirmed: int | None, asked: object) -> tuple[object, object]:
        if not confirmed or not isinstance(asked, dict):
            return no_update, no_update
        wanted, seen = asked.get("limits"), asked.get("seen")
        if not _are_limits(wanted) or not _are_limits(seen):
            return no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                limits = await api.retention.save(wanted, seen)
        except ApiError as error:
            return describe_failure("Not saved.", error), no_update
        return "Saved. The limits are applied within seconds.", retention_shown(limits, may_save=True)

    question = [
        Output(retention_ids.CONFIRMED, "displayed"),
        Output(retention_ids.CONFIRMED, "message"),
    ]
    asked, state = (retention_ids.ASKED, "data"), (retention_ids.STATE, "children")
    drawn, form = State(retention_ids.DRAWN, "data"), Output(retention_ids.RETENTION, "children")
    values = [State(form_ids.field("retention", name), "value") for name in LIMIT_FIELDS]
    app.callback(
        *question, Output(*asked), Output(*state), *again([form]), *problems_of("retention", LIMIT_FIELDS),
        Input(retention_ids.SAVE, "n_clicks"), drawn, *values, prevent_initial_call=True,
    )(ask)  # fmt: skip
    app.callback(
        Output(*state, allow_duplicate=True), form,
        Input(retention_ids.CONFIRMED, "submit_n_clicks"), State(*asked), prevent_initial_call=True,
    )(save)  # fmt: skip


async def _ask(
    api_url: str, drawn: Mapping[str, float | None], given: Mapping[str, float | None]
) -> tuple[object, ...]:
    """Return whether to ask, the question, its limits, a message, the form, and the problem of each field."""
    asked = find_changed_limits(drawn, given)
    if not asked:
        return False, "", None, "Nothing was changed.", no_update, *NONE_REFUSED
    seen = {name: drawn[name] for name in asked}
    try:
        async with ApiClient(api_url, timeout_seconds=COUNTING_SECONDS) as api:
            limits = await api.retention.limits()
            if any(limit["value"] != seen.get(limit["name"], limit["value"]) for limit in limits):
                return False, "", None, CHANGED, retention_shown(limits, may_save=True, is_open=True), *NONE_REFUSED
            question = describe_removals(asked, seen, await api.retention.preview(asked))
    except ApiError as error:
        found, other = problems_by_field(str(error), LIMIT_FIELDS)
        return False, "", None, f"Not saved. {other}", no_update, *found.values()
    return True, question, {"limits": asked, "seen": seen}, "", no_update, *NONE_REFUSED


def _are_limits(value: object) -> TypeGuard[dict[str, float | None]]:
    """Return whether a browser sent limits; the pages of the dashboard send nothing else."""
    return isinstance(value, dict) and all(limit is None or isinstance(limit, int | float) for limit in value.values())
