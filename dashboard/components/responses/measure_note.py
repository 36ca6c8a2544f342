"""Explains the colours of the tokens, and the data that a trainer has to send for tokens without a colour."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.responses import ResponseItem
from dashboard.components.responses.measures import MEASURES

__all__ = ["measure_note"]


def measure_note(responses: Sequence[ResponseItem], measure: str) -> Component:
    """Return the meaning of the colours, the number of responses without the measure, and the code that sends it."""
    by = MEASURES[measure]
    missing = sum(not by.is_observed(response) for response in responses)
    if not missing:
        return html.P(by.colours, className="aside measure-note")
    few = "" if missing == len(responses) else f" for {missing} of these {len(responses)} responses"
    lacking = [html.B(f"{by.missing}{few}"), f": needs {by.needs}: ", html.Code(by.code)]
    meaning = [] if missing == len(responses) else [f"{by.colours} "]
    return html.P([*meaning, *lacking], className="aside measure-note")
