"""Draws the sampled responses of a run as a table, each row of which leads to the tokens of its response."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.responses import ResponseItem
from dashboard.components.values import plain

__all__ = ["anchor", "response_table"]

HEADS = ("response", "reward", "advantage", "tokens", "nat a token", "sampled as", "group")
NONE = "–"


def anchor(response: ResponseItem) -> str:
    """Return the id of the element that shows a response."""
    return f"response-{response['id']}"


def response_table(responses: Sequence[ResponseItem]) -> Component:
    """Return one row for each response, in the given order."""
    head = html.Thead(html.Tr([html.Th(name, scope="col") for name in HEADS]))
    return html.Section(
        html.Div(
            html.Table([head, html.Tbody([_row(response) for response in responses])]), className="scroll", tabIndex="0"
        ),
        className="card table-card response-table",
        **{"aria-label": "The responses below"},
    )


def _row(response: ResponseItem) -> Component:
    change, group = response["displacement"], response["group"]
    kind = "correct" if response["correct"] else "incorrect"
    cells = (
        plain(response["reward"]),
        NONE if response["advantage"] is None else plain(response["advantage"]),
        f"{response['length']:,}",
        NONE if change is None else plain(change / max(1, response["length"])),
        ", ".join(response["kinds"]),
        NONE if group is None else str(group),
    )
    name = html.A(f"step {response['step']}, {kind}", href=f"#{anchor(response)}")
    return html.Tr(
        [html.Th(name, scope="row"), *map(html.Td, cells)], **{"data-correct": str(response["correct"]).lower()}
    )
