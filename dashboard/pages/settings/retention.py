"""The callbacks that save how long data is kept, once a person has confirmed what it removes."""

from collections.abc import Mapping
from typing import Final

from dash import Dash, Input, Output, State, no_update

from dashboard import ids
from dashboard.api.client import ApiClient
from dashboard.api.errors import ApiError
from dashboard.components.settings.retention_form import LIMIT_FIELDS, retention_shown
from dashboard.components.settings.stated_retention import asked_limits, stated_removals

__all__ = ["register"]

COUNTING_SECONDS: Final = 60.0


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def ask(clicks: int | None, *values: object) -> tuple[object, ...]:
        if not clicks:  # the button was drawn and not clicked
            return (no_update,) * 4
        try:
            async with ApiClient(api_url, timeout_seconds=COUNTING_SECONDS) as api:
                limits = await api.retention()
                asked = asked_limits(limits, dict(zip(LIMIT_FIELDS, values, strict=True)))
                if not asked:
                    return False, "", None, "Nothing was changed."
                seen = {limit["name"]: limit["value"] for limit in limits if limit["name"] in asked}
                question = stated_removals(asked, seen, await api.preview_retention(asked))
        except ApiError as error:
            return False, "", None, f"Not saved. {error}"
        return True, question, {"limits": asked, "seen": seen}, ""

    async def save(confirmed: int | None, asked: Mapping[str, dict[str, float | None]] | None) -> tuple[object, object]:
        if not confirmed or not asked:
            return no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                limits = await api.save_retention(asked["limits"], asked["seen"])
        except ApiError as error:
            return f"Not saved. {error}", no_update
        return "Saved. It is followed within seconds.", retention_shown(limits, may_save=True)

    question = [Output(ids.RETENTION_CONFIRMED, "displayed"), Output(ids.RETENTION_CONFIRMED, "message")]
    asked, state = (ids.RETENTION_ASKED, "data"), (ids.RETENTION_STATE, "children")
    values = [State(ids.setting_field("retention", name), "value") for name in LIMIT_FIELDS]
    app.callback(
        *question, Output(*asked), Output(*state), Input(ids.RETENTION_SAVE, "n_clicks"), *values,
        prevent_initial_call=True,
    )(ask)  # fmt: skip
    app.callback(
        Output(*state, allow_duplicate=True), Output(ids.RETENTION, "children"),
        Input(ids.RETENTION_CONFIRMED, "submit_n_clicks"), State(*asked), prevent_initial_call=True,
    )(save)  # fmt: skip
