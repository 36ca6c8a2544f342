"""Draws alerts as dotted lines through every panel, and as marks above with the summary on hover."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Final

from dashboard.collector_client.types.alerts import AlertItem, kind_name
from dashboard.collector_client.urgency import SEVERITY_ORDER
from dashboard.theme import SEVERITIES

__all__ = ["alert_lines", "alert_trace", "gravest"]

MAX_LINES: Final = 12  # more hide a chart

Figure = dict[str, object]


def gravest(alerts: Sequence[AlertItem]) -> list[AlertItem]:
    """Return the alerts that get a line, at most 12: firing alerts first, then the most severe and newest."""
    return sorted(
        (alert for alert in alerts if alert["state"] != "pending"),
        key=lambda alert: (alert["state"] != "firing", SEVERITY_ORDER.get(alert["severity"], 3), -alert["opened_step"]),
    )[:MAX_LINES]


def alert_lines(alerts: Sequence[AlertItem]) -> list[Figure]:
    """Return a vertical line for each alert, at the step since which it has its severity; fainter once resolved."""
    return [
        {
            "type": "line",
            "name": "alert",
            "xref": "x",
            "yref": "paper",
            "x0": alert["severity_step"],
            "x1": alert["severity_step"],
            "y0": 0,
            "y1": 1,
            "line": {"color": _colour(alert), "width": 1.4, "dash": "dot"},
            "opacity": 1.0 if alert["state"] == "firing" else 0.4,
        }
        for alert in _gravest_last(alerts)
    ]


def alert_trace(alerts: Sequence[AlertItem], *, axis: str) -> Figure:
    """Return the marks at the top: filled while an alert fires, hollow once resolved; the most severe is on top."""
    alerts = _gravest_last(alerts)
    return {
        "type": "scatter",
        "mode": "markers",
        "xaxis": "x",
        "yaxis": axis,
        "name": "alert",
        "showlegend": False,
        "cliponaxis": False,
        "x": [alert["severity_step"] for alert in alerts],
        "y": [0.5] * len(alerts),
        "marker": {
            "symbol": ["triangle-down" if alert["state"] == "firing" else "triangle-down-open" for alert in alerts],
            "size": 12,
            "color": [_colour(alert) for alert in alerts],
        },
        "hovertext": [_story(alert) for alert in alerts],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "meta": {"role": "alerts"},
    }


def _gravest_last(alerts: Sequence[AlertItem]) -> list[AlertItem]:
    return sorted(alerts, key=lambda alert: -SEVERITY_ORDER.get(alert["severity"], 3))


def _colour(alert: AlertItem) -> str:
    return SEVERITIES.get(alert["severity"], SEVERITIES["info"])


def _story(alert: AlertItem) -> str:
    head = f"<b>{escape(alert['severity'])}: {escape(kind_name(alert['kind']))}</b>"
    return "<br>".join([head, *(escape(line) for line in wrap(alert.get("summary", ""), 56))])
