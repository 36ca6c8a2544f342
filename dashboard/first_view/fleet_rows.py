"""Draws the first rows of the fleet as a plain table, for the first view of the page."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.runs import RunItem
from dashboard.components.fleet.rows import fleet_row
from dashboard.components.small_elements import badge, number, since, sparkline

__all__ = ["ROWS", "first_rows"]

ROWS: Final = 24  # more than a screen shows
HEADS: Final = ("Run", "Alerts", "Phase", "Status", "Step", "Reward", "Newest rewards", "Last seen")


def first_rows(runs: Sequence[RunItem]) -> Component:
    """Return a table of the most urgent runs, in the order that is given."""
    rows = [_row(fleet_row(run)) for run in runs]
    head = html.Thead(html.Tr([html.Th(name, scope="col") for name in HEADS]))
    return html.Div(html.Table([head, html.Tbody(rows)], className="first-rows"), className="fleet-table card")


def _row(row: Mapping[str, Any]) -> Component:
    name = html.A(
        [html.Span(row["run"], className="name"), html.Span(row["project"], className="project")],
        href=f"/runs/{row['id']}",
        className="fleet-row",
    )
    severity = row["severity"]
    counted = badge("severity", severity, text=f"{row['counts'][severity]} {severity}") if severity else None
    line = [float("nan") if value is None else value for value in row["sparkline"]]
    cells = (
        name,
        counted,
        badge("phase", row["phase"]),
        badge("status", row["status"]),
        number(row["step"]),
        number(row["reward"]),
        sparkline(line, signal=row["signal"]),
        since(row["last_seen"]),
    )
    return html.Tr([html.Td(cell) for cell in cells])
