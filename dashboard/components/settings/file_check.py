"""Draws the form that checks the text of a file of channels and routes, and the result of the check."""

from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.administration import CheckedFile
from dashboard.ids.settings import channels as channel_ids

__all__ = ["check_result", "file_check"]

EXAMPLE: Final = """version = 1

[channels.team]
url = "${SLACK_URL}"

[[routes]]
severity = "warning"
channels = ["team"]
"""


def file_check() -> Component:
    """Return the form: a text, a button, and the place of the answer."""
    return html.Details(
        [
            html.Summary("Check the text of a file"),
            html.P(
                "Write the file here, and copy it to the collector once no problem is left. Nothing is saved or sent.",
                className="aside",
            ),
            html.Label("Text of the file", htmlFor=channel_ids.FILE, className="control-label"),
            dcc.Textarea(id=channel_ids.FILE, value=EXAMPLE, className="file-text", spellCheck="false"),
            html.Button("Check", id=channel_ids.FILE_CHECK, className="quiet"),
            html.Div(id=channel_ids.FILE_ANSWER, role="status", className="file-answer"),
        ],
        className="file-check",
    )


def check_result(found: CheckedFile) -> Component:
    """Return each problem with its place, or the numbers of channels and routes, and the variables and files needed."""
    if found["problems"]:
        return html.Div(
            [html.P("The collector would not take this file:"), html.Ul([html.Li(text) for text in found["problems"]])]
        )
    needs = [
        *(f"the variable {name} in its environment" for name in found["variables"]),
        *(f"the file {name}" for name in found["files"]),
    ]
    return html.Div(
        [
            html.P(f"The collector would take this file: {found['channels']} channels, {found['routes']} routes."),
            *([html.P("It must also have: " + ", ".join(needs) + ".")] if needs else []),
        ]
    )
