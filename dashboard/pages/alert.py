"""The page of one alert, at ``/runs/<id>/alerts/<id>``: its evidence, its attribution and the forecast of its run."""

import asyncio
from dataclasses import dataclass
from typing import Final

from dash import Dash, Input, Output, State, dcc, html, no_update, set_props
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, NotFoundError, describe_failure
from dashboard.collector_client.types.alerts import RULE_PREFIX, ActionItem, AlertItem, HistoryItem, JudgementItem
from dashboard.collector_client.types.responses import Attribution
from dashboard.collector_client.types.rules import RunRuleItem
from dashboard.collector_client.types.runs import ForecastItem, RunItem, shown_name
from dashboard.components.alert.evidence import evidence_table
from dashboard.components.alert.explanation import explanation
from dashboard.components.alert.forks import fork_cards
from dashboard.components.alert.history import SILENCES, comment_and_silence_forms, history_list
from dashboard.components.alert.judgement import judgement_card, spell_judgement
from dashboard.components.alert.listing import alert_head
from dashboard.components.forecast import forecast_parts
from dashboard.components.page_frame import message, waiting
from dashboard.components.rules.states import rule_states
from dashboard.ids import alert as alert_ids
from dashboard.ids import frame as frame_ids

__all__ = ["alert_page", "register"]

GONE: Final = "It is gone: its run was deleted, or a backup was restored."


@dataclass(frozen=True, slots=True)
class _AlertPageData:
    """The data that the page shows.

    ``run`` has its present state. ``rules`` holds the rule that opened the alert, if a rule did and still concerns the
    run; ``actions`` are the actions of the trainer about this alert.
    """

    alert: AlertItem
    attribution: Attribution
    history: list[HistoryItem]
    forecast: ForecastItem | None
    run: RunItem
    rules: list[RunRuleItem]
    judgement: JudgementItem | None
    actions: list[ActionItem]

    def parts(self) -> list[Component]:
        alert = self.alert
        evidence = html.Section(
            [html.H2("Evidence"), evidence_table(alert.get("evidence") or {})],
            className="card explains",
        )
        outlook = html.Section(
            [
                html.H2("Forecast of the run"),
                html.Div(forecast_parts(self.forecast, phase=self.run["phase"]), className="forecast"),
            ],
            className="card explains forecast-card",
        )
        states = [html.Section(rule_states(self.rules), className="card explains")] if self.rules else []
        explained = explanation(self.attribution, evidence, opened_step=alert["opened_step"])
        to_do = (
            self.attribution["remedies"][0]["change"]
            if self.attribution["remedies"]
            else self.attribution["first_steps"]
        )
        head = alert_head(alert, run=shown_name(self.run), to_do=to_do)
        return [head, *fork_cards(self.actions), *states, outlook, *explained]


async def alert_page(api_url: str, alert_id: str, *, run_id: str | None = None) -> Component:
    """Draw the page, or a message that says why it cannot be drawn.

    Args:
        api_url: The address of the collector's API.
        alert_id: The alert.
        run_id: The run that the address names, whose events the page follows; None if it names none.
    """
    try:
        read = await _read(api_url, alert_id)
    except NotFoundError:
        return message("No such alert", f"No alert has the id {alert_id}. The address may be mistyped.")
    except ApiError as error:
        return waiting("The alert cannot be shown", str(error))
    alert = read.alert
    if run_id not in (None, alert["run_id"]):
        return message("No such alert", f"The run {run_id} has no alert with the id {alert_id}; another run has it.")
    live = {
        "page": "alert",
        "title": f"{alert['kind']} of {shown_name(read.run)}",
        "run": alert["run_id"],
        "alert": alert_id,
    }
    return html.Div(
        children=[
            dcc.Store(id=frame_ids.LIVE, data=live),
            dcc.Store(id=alert_ids.REFRESH),
            dcc.Store(id=alert_ids.JUDGED),
            html.Div(id=alert_ids.ALERT, className="alert-parts", children=read.parts()),
            html.Div(
                [
                    comment_and_silence_forms(),
                    judgement_card(alert_id, read.judgement),
                    html.Div(history_list(read.history), id=alert_ids.HISTORY),
                ],
                className="alert-life",
            ),
        ],
    )


def register(app: Dash, api_url: str) -> None:
    """Register the refresh of the page when the alert or its judgement changes, and the acknowledgement."""

    async def refresh(_changed: object, live: dict[str, str]) -> tuple[object, object]:
        try:
            read = await _read(api_url, live["alert"])
        except NotFoundError:
            return message("No such alert", GONE), no_update
        except ApiError:
            return no_update, no_update  # the page keeps what it shows; the bar shows that the connection is lost
        set_props(alert_ids.judgement("state", live["alert"]), {"children": spell_judgement(read.judgement)})
        return read.parts(), history_list(read.history)

    async def acknowledge(clicks: int | None, live: dict[str, str]) -> tuple[object, object]:
        if not clicks:  # the button was drawn and not clicked
            return no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                await api.alerts.acknowledge(live["alert"])
        except ApiError as error:
            return describe_failure("Not acknowledged.", error), no_update
        return "Acknowledged.", f"acknowledgement {clicks}"

    app.callback(
        Output(alert_ids.ACKNOWLEDGE_STATE, "children"),
        Output(alert_ids.REFRESH, "data", allow_duplicate=True),
        Input(alert_ids.ACKNOWLEDGE, "n_clicks"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(acknowledge)
    app.callback(
        Output(alert_ids.ALERT, "children"),
        Output(alert_ids.HISTORY, "children"),
        Input(alert_ids.REFRESH, "data"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(refresh)
    _register_forms(app, api_url)


def _register_forms(app: Dash, api_url: str) -> None:
    """Register the comment and the silence; the alert is read anew after both."""

    async def comment(clicks: int | None, text: str | None, live: dict[str, str]) -> tuple[object, object, object]:
        if not clicks or not (text or "").strip():
            return ("A comment needs a text." if clicks else no_update), no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                await api.alerts.comment(live["alert"], text or "")
        except ApiError as error:
            return describe_failure("Not commented.", error), no_update, no_update
        return "Commented.", "", f"comment {clicks}"

    async def silence(
        clicks: int | None, time: str, reason: str | None, live: dict[str, str]
    ) -> tuple[object, object, object]:
        if not clicks or time not in SILENCES:
            return no_update, no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                await api.alerts.silence(
                    live["alert"], minutes=int(time) if time.isdigit() else None, reason=reason or ""
                )
        except ApiError as error:
            return describe_failure("Not silenced.", error), no_update, no_update
        return f"Silenced: {SILENCES[time]}.", "", f"silence {clicks}"

    outputs = (
        Output(alert_ids.LIFE_STATE, "children"),
        Output(alert_ids.COMMENT, "value"),
        Output(alert_ids.REFRESH, "data"),
    )
    again = [Output(one.component_id, one.component_property, allow_duplicate=True) for one in outputs]
    text, live = State(alert_ids.COMMENT, "value"), State(frame_ids.LIVE, "data")
    app.callback(*outputs, Input(alert_ids.COMMENT_SEND, "n_clicks"), text, live, prevent_initial_call=True)(comment)
    app.callback(
        *again,
        Input(alert_ids.SILENCE_SEND, "n_clicks"),
        State(alert_ids.SILENCE, "value"),
        text,
        live,
        prevent_initial_call=True,
    )(silence)


async def _read(api_url: str, alert_id: str) -> _AlertPageData:
    async with ApiClient(api_url) as api:
        alert, attribution, history = await asyncio.gather(
            api.alerts.get(alert_id), api.alerts.attribution(alert_id), api.alerts.history(alert_id)
        )
        run_id, kind = alert["run_id"], alert["kind"]
        rules = await api.rules.of_run(run_id) if kind.startswith(RULE_PREFIX) else []
        of_alert = [rule for rule in rules if rule["kind"] == kind]
        run, forecast, judgements, actions = await asyncio.gather(
            api.runs.get(run_id), api.runs.forecast(run_id), api.runs.judgements(run_id), api.runs.actions(run_id)
        )
        about = [action for action in actions if action["alert_id"] == alert_id]
        judgement = judgements.get(alert_id)
        return _AlertPageData(alert, attribution, history, forecast, run, of_alert, judgement, about)
