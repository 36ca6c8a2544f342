"""The callback of the forms by which people judge an alarm; the pages of a run and of an alert have them."""

import contextlib
from typing import Final

from dash import ALL, Dash, Input, Output, State, ctx, no_update, set_props

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.components.alert.judgement import spell_judgement, title_of_list
from dashboard.components.values import read_step
from dashboard.ids import alert as alert_ids
from dashboard.ids import frame as frame_ids

__all__ = ["register"]

JUDGED_MEANWHILE: Final = "Not judged. Somebody has judged this alarm meanwhile, as above. Press again to replace that."


def register(app: Dash, api_url: str) -> None:
    """Register the callback."""

    async def judge(
        right: list[int | None],
        wrong: list[int | None],
        _steps: list[str | None],
        _notes: list[str | None],
        _shown: list[str | None],
        live: dict[str, str],
    ) -> object:
        pressed = ctx.triggered_id
        if not pressed or not any([*right, *wrong]):  # the forms were drawn, and no button clicked
            return no_update
        alert = pressed["alert"]
        is_right = pressed["type"] == alert_ids.judgement("right", alert)["type"]
        step, note, shown = (
            next((item.get("value") for item in items if item["id"]["alert"] == alert), None)
            for items in ctx.states_list[:3]
        )
        try:
            failed_at = read_step(step)
        except ValueError as error:
            set_props(alert_ids.judgement("problem", alert), {"children": f"Not judged. The step {error}."})
            return no_update
        set_props(alert_ids.judgement("problem", alert), {"children": None})
        try:
            async with ApiClient(api_url) as api:
                now = None
                with contextlib.suppress(ApiError):  # the collector may still take the judgement
                    now = (await api.runs.judgements(live["run"])).get(alert)
                if now and spell_judgement(now) != shown:  # no event reports the judgements of others
                    set_props(alert_ids.judgement("state", alert), {"children": spell_judgement(now)})
                    set_props(alert_ids.judgement("problem", alert), {"children": JUDGED_MEANWHILE})
                    return no_update
                given = await api.alerts.judge(alert, is_right=is_right, failed_at=failed_at, note=str(note or ""))
                set_props(alert_ids.judgement("state", alert), {"children": spell_judgement(given)})
                for name in ("step", "note"):
                    set_props(alert_ids.judgement(name, alert), {"value": ""})
                if live["page"] == "alert":
                    set_props(alert_ids.REFRESH, {"data": f"judged {right} {wrong}"})
                    return no_update
                with contextlib.suppress(ApiError):  # the title stays; the judgement is stored
                    alarms = [form["id"]["alert"] for form in ctx.inputs_list[0]]
                    title = title_of_list(alarms, {alert, *await api.runs.judgements(live["run"])})
                    set_props(alert_ids.JUDGED_TITLE, {"children": title})
        except ApiError as error:
            set_props(alert_ids.judgement("problem", alert), {"children": describe_failure("Not judged.", error)})
        return no_update

    app.callback(
        Output(alert_ids.JUDGED, "data"),
        Input(alert_ids.judgement("right", ALL), "n_clicks"),
        Input(alert_ids.judgement("wrong", ALL), "n_clicks"),
        State(alert_ids.judgement("step", ALL), "value"),
        State(alert_ids.judgement("note", ALL), "value"),
        State(alert_ids.judgement("state", ALL), "children"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(judge)
