"""Draws what concerns a view that is shown: the message about one, and the dialog that shows the page that is open."""

from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.ids import frame as frame_ids

__all__ = ["show_dialog", "shown_view"]

LONGEST_NOTE: Final = 300  # as the API's


def shown_view() -> Component:
    """Return the place of the message about a view that somebody shows; assets/shown_view.js fills it."""
    return html.Aside(
        id=frame_ids.SHOWN_VIEW,
        className="shown-view",
        children=[
            html.Div(id=frame_ids.SHOWN_VIEW_TEXT, role="status"),
            html.Div(id=frame_ids.SHOWN_VIEW_BUTTONS, className="shown-buttons"),
        ],
        **{"aria-label": "shown by somebody"},
    )


def show_dialog() -> Component:
    """Return the dialog that shows the page that is open to others; assets/shown_view.js opens it."""
    return html.Dialog(
        id=frame_ids.SHOW_DIALOG,
        className="card keys show-view",
        children=[
            html.H2("Show this page"),
            html.P("Everybody who has the dashboard open, with a key that reaches this page, is asked to look at it."),
            html.Div(
                [
                    html.Label("Note", htmlFor=frame_ids.SHOW_NOTE),
                    dcc.Input(id=frame_ids.SHOW_NOTE, value="", maxLength=LONGEST_NOTE, autoComplete="off"),
                ],
                className="field",
            ),
            html.Div(
                [
                    html.Button("Show", id=frame_ids.SHOW_SEND, className="button"),
                    html.Form(html.Button("Close"), method="dialog"),
                ],
                className="field-buttons",
            ),
            html.P(id=frame_ids.SHOW_STATE, role="status"),
            dcc.Store(id=frame_ids.SHOW_ADDRESS),
        ],
        **{"aria-label": "Show this page"},
    )
