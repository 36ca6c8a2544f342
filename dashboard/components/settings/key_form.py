"""Draws the form that makes a key."""

from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.components.small_elements import number_input
from dashboard.ids.settings import keys as key_ids

__all__ = ["SCOPES", "key_form"]

SCOPES: Final = {
    "ingest": "ingest: a trainer sends records",
    "read": "read: see runs and alerts",
    "operate": "operate: also acknowledge alerts, label runs, test channels",
    "admin": "admin: everything",
}


def key_form() -> Component:
    """Return the fields of a new key, and the place where it is shown once."""
    return html.Div(
        className="fields form-row",
        children=[
            _field("Name", dcc.Input(id=key_ids.NAME, maxLength=200, autoComplete="off")),
            html.Div(
                [
                    html.Span("Scope", className="control-label"),
                    dcc.Dropdown(id=key_ids.SCOPE, options=SCOPES, value="read", clearable=False),
                ],
                className="field control",
            ),
            _field("Project (empty: all)", dcc.Input(id=key_ids.PROJECT, maxLength=200)),
            _field(
                "Days until it expires (empty: never)",
                number_input(key_ids.DAYS),
            ),
            html.Div(html.Button("Make a key", id=key_ids.MAKE, className="button"), className="field-buttons"),
            html.Div(id=key_ids.MESSAGE, role="status", className="key-message"),
            html.Div(id=key_ids.MADE, role="status", className="key-made"),
        ],
    )


def _field(label: str, control: Component) -> Component:
    return html.Div([html.Label(label, htmlFor=control.id), control], className="field")
