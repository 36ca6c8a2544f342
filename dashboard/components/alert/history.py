"""Draws the history of an alert: its events, the comments of people, and the forms to comment and to silence."""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.alerts import AlertItem, HistoryItem
from dashboard.components.small_elements import since
from dashboard.html_text import html_text
from dashboard.ids import alert as alert_ids

__all__ = ["SILENCES", "comment_and_silence_forms", "history_list", "moment_link"]

RESOLVED: Final = "until_resolved"
SILENCES: Final = {"60": "1 hour", "480": "8 hours", "1440": "1 day", "10080": "1 week", RESOLVED: "until resolved"}
BEFORE, AFTER = 200, 50  # steps around the opening that "open the run at this moment" shows


def comment_and_silence_forms() -> Component:
    """Return the forms; they keep their content while the alert is drawn anew."""
    return html.Section(
        className="card explains comment-and-silence",
        children=[
            html.H2("Comment or silence"),
            html.Div(
                [
                    html.Label("Comment", htmlFor=alert_ids.COMMENT),
                    dcc.Textarea(id=alert_ids.COMMENT, rows=2, maxLength=2000, placeholder="What did you find, or do?"),
                ],
                className="field",
            ),
            html.Div(
                [
                    html.Button("Comment", id=alert_ids.COMMENT_SEND, className="button"),
                    html.Div(
                        [
                            html.Span("Silence for", className="control-label"),
                            dcc.Dropdown(id=alert_ids.SILENCE, options=SILENCES, value="60", clearable=False),
                        ],
                        className="control silence-time",
                    ),
                    html.Button(
                        "Silence",
                        id=alert_ids.SILENCE_SEND,
                        className="quiet",
                        title="During this time nobody is notified of this alert; the comment is kept as the reason",
                    ),
                    html.Span(id=alert_ids.LIFE_STATE, role="status"),
                ],
                className="field-buttons",
            ),
        ],
    )


def history_list(entries: Sequence[HistoryItem]) -> Component:
    """Return the events of the alerts of this run and kind, the newest first."""
    return html.Section(
        [
            html.H2("History"),
            html.Ol(className="history", **{"data-html": html_text([_entry(entry) for entry in entries])}),
            *([] if entries else [html.P("Nothing was recorded before this version.", className="calm")]),
        ],
        className="card explains",
    )


def moment_link(alert: AlertItem) -> Component:
    """Return a link to the run, zoomed to the steps around the opening of the alert."""
    opened = alert["opened_step"]
    zoom = f"{max(0, opened - BEFORE)},{opened + AFTER}"
    return html.A("Open the run at this moment", href=f"/runs/{alert['run_id']}?zoom={zoom}", className="incident-link")


def _entry(entry: HistoryItem) -> Component:
    step = "" if entry["step"] is None else f" at step {entry['step']:,}"
    by = f" by {entry['by']}" if entry["by"] else ""
    comment = html.P(entry["why"], className="said") if entry["why"] else None
    change = entry["change"].replace("_", " ")
    return html.Li([html.Span([html.Strong(change), f"{by}{step}, ", since(entry["at"])]), comment])
