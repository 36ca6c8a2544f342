"""Draws the forecast of a run: the probability of a collapse beside its base rate, and the evidence that raises it."""

from typing import Final

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.runs import DriverItem, ForecastItem, HorizonItem

__all__ = ["forecast_parts"]

CLEARLY: Final = 1.05  # times the base rate, from which on a probability is shown as raised
LEAST: Final = 0.001  # a smaller probability would be shown as 0.0 %
SMALL: Final = 0.1
MOST: Final = 0.995  # a larger one would be shown as 100 %
WITHOUT_LIKELIHOOD: Final = (
    "This run sends no signal of the likelihood side, so only the base rate is known: it does not depend on what "
    "happens in the run."
)
NO_EVIDENCE: Final = "No evidence raises the probability: these are the base rates."
NO_FORECAST: Final = (
    "There is no forecast: no step has been processed yet, or the run has collapsed or cannot be processed."
)
COLLAPSED: Final = "There is no forecast: the run has collapsed."


def forecast_parts(forecast: ForecastItem | None, *, phase: str = "") -> list[Component]:
    """Return one tile for each horizon, and the evidence; without evidence, only the base rate.

    Args:
        forecast: The forecast, or None where there is none.
        phase: The phase of the run, if it is known.
    """
    if forecast is None:
        return [html.P(COLLAPSED if phase == "collapsed" else NO_FORECAST, className="forecast-note")]
    tiles = [_tile(horizon) for horizon in forecast["horizons"]]
    fitted = f"Use it to compare runs, not as an exact probability. Fitted on {forecast['fitted_on']}."
    head = html.Span(
        ["P(collapse) ", html.Span(f"after step {forecast['step']:,}", className="forecast-step")],
        className="forecast-name",
        title=fitted,
    )
    return [html.Div([head, *tiles], className="forecast-tiles"), html.P(_reason(forecast), className="forecast-note")]


def _tile(horizon: HorizonItem) -> Component:
    is_raised = horizon["probability"] > CLEARLY * horizon["base_rate"]
    rate = f"base rate {_percent(horizon['base_rate'])}"
    number = html.B(_percent(horizon["probability"]), className="raised" if is_raised else "")
    return html.Span([f"within {horizon['within']} rows ", number, html.Span(rate, className="base-rate")])


def _reason(forecast: ForecastItem) -> str:
    if forecast["drivers"]:
        return f"Raised by: {', '.join(_driver(driver) for driver in forecast['drivers'])}."
    return WITHOUT_LIKELIHOOD if forecast["model"] == "metrics" else NO_EVIDENCE


def _driver(driver: DriverItem) -> str:
    return f"{driver['description']} (odds × {driver['odds_ratio']:.3g})"


def _percent(probability: float) -> str:
    """Return a probability in percent, of which no forecast is 0 or 1, as in the incident report of the collector."""
    if not LEAST <= probability < MOST:
        return "< 0.1 %" if probability < LEAST else "> 99 %"
    return f"{100 * probability:.{1 if probability < SMALL else 0}f} %"
