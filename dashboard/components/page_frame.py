"""Draws the frame around every page, and the message in place of a page that cannot be drawn."""

from textwrap import shorten
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard import ids

__all__ = ["message", "shell"]

LONGEST_DETAIL: Final = 300


def shell() -> Component:
    """Return the frame that pages are drawn into."""
    return html.Div(
        className="shell",
        children=[
            dcc.Location(id=ids.ADDRESS, refresh="callback-nav"),
            html.Header(
                className="bar",
                children=[
                    dcc.Link([html.Span(className="pulse-mark"), "rlvitals"], href="/", className="wordmark"),
                    html.Nav(
                        [dcc.Link("Runs", href="/"), dcc.Link("Compare", href="/compare")],
                        className="bar-links",
                        **{"aria-label": "pages"},
                    ),
                    html.Span(id=ids.LIVE_STATE, className="live-state"),
                    html.A("API", href="/docs", className="bar-link"),
                ],
            ),
            html.Main(id=ids.PAGE, children=html.Div(className="loading", children="Loading")),
        ],
    )


def message(title: str, detail: str) -> Component:
    """Return a message that says why a page cannot be drawn, with a link to try again."""
    return html.Section(
        className="card message",
        role="alert",
        children=[
            html.H1(title),
            html.P(shorten(detail, LONGEST_DETAIL, placeholder=" …")),
            html.P([html.A("Try again", href="", className="button"), dcc.Link("All runs", href="/")]),
        ],
    )
