"""Draws the lines that connect a trainer, for the page that has no run yet."""

from dash import dcc, html
from dash.development.base_component import Component

__all__ = ["connect_card", "connect_lines"]

SNIPPET_ID = "connect-lines"


def connect_lines(address: str) -> str:
    """Return the lines, ready to paste."""
    return (
        "import trainer_hooks\n"
        f'monitor = trainer_hooks.connect("{address}", run="my-run")\n'
        'monitor.log_step(step, scalars={"reward/mean": reward})'
    )


def connect_card(address: str) -> Component:
    """Return the card that explains how to send the first run."""
    lines = connect_lines(address)
    return html.Section(
        className="card connect",
        children=[
            html.Div(className="heartbeat"),
            html.H1("No runs yet"),
            html.P("Three lines connect a trainer. This page shows the run as soon as its first step arrives."),
            html.Div(
                className="snippet",
                children=[
                    html.Pre(html.Code(lines, id=SNIPPET_ID)),
                    dcc.Clipboard(
                        content=lines, title="Copy", className="copy", children="Copy", copied_children="Copied"
                    ),
                ],
            ),
            html.P(
                [
                    "With TRL it is one: ",
                    html.Code("GRPOTrainer(..., callbacks=[VitalsCallback()])"),
                    ". Without a trainer, ",
                    html.Code("rlvitals demo"),
                    " trains a small model that collapses.",
                ],
                className="aside",
            ),
        ],
    )
