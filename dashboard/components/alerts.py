"""The alerts of a run as cards: what was found, since when, and the evidence on a click."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from dashboard.answers import Alert, firing
from dashboard.components.evidence import evidence_table
from dashboard.components.marks import badge

__all__ = ["alert_list"]


def alert_list(alerts: Sequence[Alert]) -> list[Component]:
    """Give the firing alerts, gravest first, and the resolved ones folded away below."""
    held = firing(alerts)
    past = sorted((alert for alert in alerts if alert["state"] == "resolved"), key=lambda alert: -alert["opened_step"])
    parts: list[Component] = [html.H2("Alerts")]
    parts += [_card(alert) for alert in held] or [html.P("Nothing fires.", className="calm")]
    if past:
        parts.append(
            html.Details(
                [html.Summary(f"{len(past)} resolved"), *(_card(alert) for alert in past)], className="past-alerts"
            )
        )
    return parts


def _card(alert: Alert) -> Component:
    kind = alert["kind"].replace("_", " ")
    return html.Article(
        className=f"alert {alert['state']}",
        key=alert["id"],
        **{"data-severity": alert["severity"]},
        children=[
            html.Header([badge("severity", alert["severity"]), html.Strong(kind[:1].upper() + kind[1:])]),
            html.P(alert.get("summary", "")),
            html.P(_when(alert), className="when"),
            html.Details([html.Summary("Evidence"), evidence_table(alert.get("evidence") or {})]),
        ],
    )


def _when(alert: Alert) -> str:
    phase = f" in {alert['phase']}" if alert.get("phase") else ""
    opened = f"since step {alert['opened_step']}{phase}"
    if alert["state"] == "resolved":
        return f"step {alert['opened_step']} to {alert.get('resolved_step')}{phase}"
    return opened
