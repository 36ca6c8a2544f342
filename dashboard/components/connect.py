"""The three lines that connect a trainer, shown where there is no run yet."""

from dash import dcc, html
from dash.development.base_component import Component

__all__ = ["connect_card", "connect_lines"]

SNIPPET_ID = "connect-lines"


def connect_lines(address: str) -> str:
    """Give the lines, ready to paste."""
    return (
        "import trainer_hooks\n"
        f'monitor = trainer_hooks.connect("{address}", run="my-run")\n'
        'monitor.log_step(step, scalars={"reward/mean": reward})'
    )


def connect_card(address: str) -> Component:
    """Invite the first run; the page fills by itself when it arrives."""
    lines = connect_lines(address)
    return html.Section(
        className="card connect",
        children=[
            html.Div(className="heartbeat"),
            html.H1("No runs yet"),
            html.P("Three lines connect a trainer. This page fills by itself as soon as the first step arrives."),
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
                    ". No trainer at hand? ",
                    html.Code("rlvitals demo"),
                    " trains one that dies.",
                ],
                className="aside",
            ),
        ],
    )
