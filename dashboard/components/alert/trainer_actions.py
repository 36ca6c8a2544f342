"""Draws the actions of a run's trainer about alerts: the newest actions in full, earlier ones folded."""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.alerts import ActionItem
from dashboard.components.small_elements import badge, since

__all__ = ["action_list"]

SHOWN: Final = 3
DONE_OR_NOT: Final = {
    "notify": ("Notified", "Notify"),
    "checkpoint": ("Saved a checkpoint", "Save a checkpoint"),
    "skip_update": ("Skipped an update", "Skip an update"),
    "stop": ("Stopped", "Stop"),
    "rollback": ("Went back to a healthy checkpoint", "Go back to a healthy checkpoint"),
    "enable_llds": ("Turned LLDS on", "Turn LLDS on"),
    "fork": ("Forked the run", "Fork the run"),
}


def action_list(run_id: str, actions: Sequence[ActionItem]) -> list[Component]:
    """Return the actions, newest first; an empty list for a run whose trainer reported none."""
    if not actions:
        return []
    entries = [_entry(run_id, action) for action in actions]
    parts: list[Component] = [html.H2("Actions"), *entries[:SHOWN]]
    if len(entries) > SHOWN:
        parts.append(html.Details([html.Summary(f"{len(entries) - SHOWN} earlier"), *entries[SHOWN:]]))
    return [html.Div(parts, className="actions")]


def _entry(run_id: str, action: ActionItem) -> Component:
    done, not_done = DONE_OR_NOT.get(action["action"], (action["action"],) * 2)
    detail = [html.P(action["detail"])] if action["detail"] else []
    return html.Article(
        className="action",
        **{"data-outcome": action["outcome"]},
        children=[
            html.Header(
                [
                    html.Strong(done if action["outcome"] == "taken" else not_done),
                    badge("outcome", action["outcome"], text=action["outcome"].replace("_", " ")),
                ]
            ),
            *detail,
            html.P(["at step ", str(action["step"]), ", ", since(action["time"])], className="when"),
            html.P(["because of ", dcc.Link(action["reason"], href=f"/runs/{run_id}/alerts/{action['alert_id']}")]),
        ],
    )
