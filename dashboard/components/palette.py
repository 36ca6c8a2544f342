"""Draws the palette: a dialog that leads to a page or a run whose name is typed."""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.api.types.runs import RunItem
from dashboard.ids import frame as frame_ids

__all__ = ["palette", "palette_links"]

PAGES: Final = {"All runs": "/", "Compare": "/compare", "Rules": "/rules", "Settings": "/settings", "API": "/docs"}


def palette() -> Component:
    """Return the dialog; assets/keyboard.js opens it."""
    field = dcc.Input(
        id=frame_ids.PALETTE_TEXT, type="text", value="", placeholder="Go to a run or a page", autoComplete="off"
    )
    return html.Dialog(
        [field, html.Div(palette_links("", []), id=frame_ids.PALETTE_FOUND)],
        id=frame_ids.PALETTE,
        className="card palette",
        **{"aria-label": "Go to"},
    )


def palette_links(text: str, runs: Sequence[RunItem]) -> Component:
    """Return the links to the pages whose name begins with a text, and to runs; or say that there is nothing.

    Args:
        text: What is typed.
        runs: The runs that match it.
    """
    pages = [(name, "page", href) for name, href in PAGES.items() if name.lower().startswith(text.lower())]
    found = [*pages, *((run.get("title") or run["name"], run["project"], f"/runs/{run['id']}") for run in runs)]
    if not found:
        return html.P("No run and no page matches.", className="calm")
    return html.Ul([html.Li(dcc.Link([html.Span(name), html.Small(kind)], href=href)) for name, kind, href in found])
