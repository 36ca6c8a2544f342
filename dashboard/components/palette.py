"""Draws the palette: a dialog that leads to a page or a run whose name is typed."""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.runs import RunItem, shown_name
from dashboard.components.run_choice import search_text
from dashboard.ids import frame as frame_ids

__all__ = ["palette", "palette_links"]

PAGES: Final = {"All runs": "/", "Compare": "/compare", "Rules": "/rules", "Settings": "/settings", "API": "/docs"}
OUTSIDE: Final = frozenset({"/docs"})  # the collector's own page, which the browser loads


def palette() -> Component:
    """Return the dialog; assets/palette.js opens it."""
    field = dcc.Input(
        id=frame_ids.PALETTE_TEXT, type="text", value="", placeholder="Go to a run or a page", autoComplete="off"
    )
    return html.Dialog(
        [field, html.Div(palette_links("", []), id=frame_ids.PALETTE_FOUND)],
        id=frame_ids.PALETTE,
        className="card palette",
        **{"aria-label": "Go to"},
    )


def palette_links(typed: str, runs: Sequence[RunItem], *, problem: str = "") -> Component:
    """Return the links to the pages whose name begins with a text, and to runs; or a message that there is none.

    Args:
        typed: The text of the field, unchanged: assets/palette.js opens no link that another text has found.
        runs: The runs that match it.
        problem: Why the runs cannot be read; empty if they are.
    """
    begins = search_text(typed).lower()
    pages = [(name, "page", href) for name, href in PAGES.items() if name.lower().startswith(begins)]
    found = [*pages, *((shown_name(run), run["project"], f"/runs/{run['id']}") for run in runs)]
    parts: list[Component] = [html.Ul([html.Li(_link(*each)) for each in found])] if found else []
    if problem or not found:
        parts.append(html.P(problem or "No run and no page matches.", className="calm"))
    return html.Div(parts, **{"data-typed": typed})


def _link(name: str, kind: str, href: str) -> Component:
    parts = [html.Span(name), html.Small(kind)]
    return html.A(parts, href=href) if href in OUTSIDE else dcc.Link(parts, href=href)
