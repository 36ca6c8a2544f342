"""Draws the fleet: one row per run, the most urgent first, and the filters above."""

from collections import Counter
from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from dashboard import ids
from dashboard.api_types import AlertItem, RunItem, alerts_of, by_trouble, firing
from dashboard.components.small_elements import badge, number, since, sparkline

__all__ = ["fleet_filters", "fleet_index", "fleet_list"]

MANY = 2
COLUMNS = ("Run", "Phase", "Status", "Step", "Last seen", "Reward", "Alerts")


def fleet_list(runs: Sequence[RunItem], alerts: Sequence[AlertItem]) -> list[Component]:
    """Return the summary line and the rows, in the order of `fleet_index`."""
    held = alerts_of(firing(alerts))
    heads = html.Div([html.Span(name) for name in COLUMNS], className="fleet-head")
    rows = [_row(run, held.get(run["id"], [])) for run in by_trouble(runs, alerts)]
    return [_summary(runs, firing(alerts)), html.Div([heads, *rows], className="card fleet")]


def fleet_index(runs: Sequence[RunItem], alerts: Sequence[AlertItem]) -> list[dict[str, str]]:
    """Return what the browser filters by, in the order of the rows."""
    return [
        {
            "project": run["project"],
            "state": _state(run),
            "text": f"{run['project']} {run['name']} {run['phase']} {run['status']}".lower(),
        }
        for run in by_trouble(runs, alerts)
    ]


def fleet_filters(runs: Sequence[RunItem], *, project: str | None = None, text: str = "") -> Component:
    """Return the filters with the given values; hidden while no filter is set and there is at most one run."""
    projects = sorted({run["project"] for run in runs} | ({project} if project else set()))
    return html.Div(
        className="filters",
        hidden=len(runs) < MANY and not project and not text,
        children=[
            dcc.Input(id=ids.FLEET_TEXT, type="search", value=text, placeholder="Find a run", className="find"),
            dcc.Dropdown(
                id=ids.FLEET_PROJECT, options=projects, value=project, placeholder="All projects", className="choose"
            ),
            html.Fieldset(
                [
                    html.Legend("Status", className="unseen"),
                    dcc.RadioItems(
                        id=ids.FLEET_STATUS,
                        options=["all", "running", "silent", "ended"],
                        value="all",
                        inline=True,
                        className="segments",
                    ),
                ],
                className="plain-fieldset",
            ),
        ],
    )


def _state(run: RunItem) -> str:
    """Return the filter that a status belongs to: running, silent (stalled, lost) or ended."""
    return {"running": "running", "finished": "ended", "stopped": "ended"}.get(run["status"], "silent")


def _summary(runs: Sequence[RunItem], alerts: Sequence[AlertItem]) -> Component:
    states = Counter(_state(run) for run in runs)
    severities = Counter(alert["severity"] for alert in alerts)
    plural = "" if len(runs) == 1 else "s"
    parts = [html.Strong(f"{len(runs)} run{plural}")]
    parts += [html.Span(f"{states[name]} {name}") for name in ("running", "silent", "ended") if states[name]]
    parts += [
        badge("severity", name, text=f"{severities[name]} {name}")
        for name in ("critical", "warning", "info")
        if severities[name]
    ]
    return html.P(parts, className="summary")


def _row(run: RunItem, alerts: Sequence[AlertItem]) -> Component:
    line = run.get("sparkline")
    gravest = {"data-severity": alerts[0]["severity"]} if alerts else {}
    return dcc.Link(
        id=ids.fleet_row(run["id"]),
        href=f"/runs/{run['id']}",
        className="fleet-row",
        children=html.Div(
            className="fleet-cells",
            **{"data-run": run["id"], "data-state": _state(run)},
            **gravest,
            children=[
                html.Div([html.Span(run["name"], className="name"), html.Span(run["project"], className="project")]),
                html.Div(badge("phase", run["phase"])),
                html.Div(badge("status", run["status"])),
                html.Div(number(run.get("last_step"), signal="step"), className="cell-step"),
                html.Div(since(run.get("last_seen")), className="cell-since"),
                html.Div(
                    sparkline(line["values"], signal=line["signal"]) if line else None, className="cell-sparkline"
                ),
                html.Div(_alerts(alerts), className="cell-alerts"),
            ],
        ),
    )


def _alerts(alerts: Sequence[AlertItem]) -> list[Component]:
    counts = Counter(alert["severity"] for alert in alerts)
    return [
        html.Span(f"{counts[name]} {name}", className="badge severity", **{"data-severity": name}, title=titles)
        for name in ("critical", "warning", "info")
        if counts[name]
        for titles in ["\n".join(alert["summary"] for alert in alerts if alert["severity"] == name)]
    ]
