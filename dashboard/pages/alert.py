"""The page of one alert, at ``/runs/<id>/alerts/<id>``: its evidence and its attribution."""

import asyncio

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from dashboard import ids
from dashboard.api_client import ApiClient, ApiError, NotFoundError
from dashboard.api_types import AlertItem, Attribution
from dashboard.components.alert.evidence import evidence_table
from dashboard.components.alert.explanation import explanation
from dashboard.components.alert.listing import alert_head
from dashboard.components.page_frame import message

__all__ = ["alert_page", "register"]


async def alert_page(api_url: str, alert_id: str) -> Component:
    """Draw the page, or a message that says why it cannot be drawn."""
    try:
        alert, attribution = await _read(api_url, alert_id)
    except NotFoundError:
        return message("No such alert", f"No alert has the id {alert_id}. The address may be mistyped.")
    except ApiError as error:
        return message("The alert cannot be shown", str(error))
    live = {"page": "alert", "title": f"{alert['kind']} of {alert['run']}", "run": alert["run_id"], "alert": alert_id}
    return html.Div(
        className="alert-page",
        children=[
            dcc.Store(id=ids.LIVE, data=live),
            dcc.Store(id=ids.ALERT_REFRESH),
            html.Div(id=ids.ALERT, className="alert-parts", children=_parts(alert, attribution)),
        ],
    )


def register(app: Dash, api_url: str) -> None:
    """Register the refresh of the page when the alert changes, and the acknowledgement."""

    async def refresh(_changed: object, live: dict[str, str]) -> object:
        try:
            alert, attribution = await _read(api_url, live["alert"])
        except ApiError:
            return no_update  # the page keeps what it shows; the bar shows that the connection is lost
        return _parts(alert, attribution)

    async def acknowledge(clicks: int | None, live: dict[str, str]) -> object:
        if not clicks:  # the button was drawn and not clicked
            return no_update
        try:
            async with ApiClient(api_url) as api:
                await api.acknowledge(live["alert"])
            alert, attribution = await _read(api_url, live["alert"])
        except ApiError as error:
            return message("The alert could not be acknowledged", str(error))
        return _parts(alert, attribution)

    app.callback(
        Output(ids.ALERT, "children", allow_duplicate=True),
        Input(ids.ALERT_ACKNOWLEDGE, "n_clicks"),
        State(ids.LIVE, "data"),
        prevent_initial_call=True,
    )(acknowledge)
    app.callback(
        Output(ids.ALERT, "children"),
        Input(ids.ALERT_REFRESH, "data"),
        State(ids.LIVE, "data"),
        prevent_initial_call=True,
    )(refresh)


def _parts(alert: AlertItem, attribution: Attribution) -> list[Component]:
    evidence = html.Section(
        [html.H2("Evidence"), evidence_table(alert.get("evidence") or {})], className="card explains arithmetic-card"
    )
    return [alert_head(alert), *explanation(attribution, opened_step=alert["opened_step"]), evidence]


async def _read(api_url: str, alert_id: str) -> tuple[AlertItem, Attribution]:
    async with ApiClient(api_url) as api:
        alert, attribution = await asyncio.gather(api.alert(alert_id), api.attribution(alert_id))
    return alert, attribution
