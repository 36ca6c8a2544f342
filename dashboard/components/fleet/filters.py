"""Draws what stands above the table of runs: the summary, the filters, grouping, columns and saved views."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.api.types.administration import ViewItem
from dashboard.api.types.alerts import AlertItem
from dashboard.api.types.runs import MAX_RUNS, RunItem
from dashboard.api.urgency import firing
from dashboard.components.fleet.rows import state_of
from dashboard.components.fleet.table import COLUMNS, HIDDEN_AT_FIRST
from dashboard.components.small_elements import badge
from dashboard.ids import fleet as fleet_ids
from dashboard.signal_definitions.lookup import TABLE

__all__ = ["MANY", "fleet_filters", "fleet_summary", "view_options"]

MANY: Final = 2
CURVES: Final = "fleet-curve-names"
STATES: Final = ("all", "running", "silent", "ended")
GROUPS: Final = {
    "project": "by project",
    "phase": "by phase",
    "status": "by status",
    "seeds": "by setting (seeds)",
    "tag": "by tag",
    "owner": "by owner",
}


def fleet_summary(runs: Sequence[RunItem], alerts: Sequence[AlertItem]) -> Component:
    """Return one line: how many runs there are, in which state, and how many alerts fire."""
    shown = [run for run in runs if not run.get("archived")]
    states = Counter(state_of(run) for run in shown)
    severities = Counter(alert["severity"] for alert in firing(alerts))
    parts = [html.Strong(f"{len(shown)} run{'' if len(shown) == 1 else 's'}")]
    parts += [html.Span(f"{states[name]} {name}") for name in STATES if states[name]]
    parts += [
        badge("severity", name, text=f"{severities[name]} {name}")
        for name in ("critical", "warning", "info")
        if severities[name]
    ]
    if len(runs) >= MAX_RUNS:
        parts.append(html.Span(f"only the newest {MAX_RUNS:,} runs are listed"))
    return html.P(parts, className="summary")


def fleet_filters(
    runs: Sequence[RunItem], views: Sequence[ViewItem] = (), *, project: str | None = None, text: str = ""
) -> Component:
    """Return the filters with the given values; hidden while no filter is set and there is at most one run."""
    projects = sorted({run["project"] for run in runs} | ({project} if project else set()))
    return html.Div(
        id=fleet_ids.FILTERS,
        className="filters",
        hidden=len(runs) < MANY and not project and not text,
        children=[
            dcc.Input(id=fleet_ids.TEXT, type="search", value=text, placeholder="Find a run", className="find"),
            _choice(fleet_ids.PROJECT, "Project", projects, value=project, empty="All projects"),
            html.Fieldset(
                [
                    html.Legend("Status", className="unseen"),
                    dcc.RadioItems(
                        id=fleet_ids.STATUS, options=list(STATES), value="all", inline=True, className="segments"
                    ),
                ],
                className="plain-fieldset",
            ),
            _choice(fleet_ids.GROUP, "Groups", GROUPS, empty="Not grouped"),
            _columns(),
            html.Div(
                [
                    html.Span("Archived runs", className="unseen control-label"),
                    dcc.Checklist(
                        id=fleet_ids.ARCHIVED, options={"archived": "archived"}, value=[], className="inline-check"
                    ),
                ],
                className="control",
            ),
            html.Div(
                [
                    _choice(fleet_ids.VIEW, "Saved views", view_options(views), empty="Saved views"),
                    html.Button("Save view", id=fleet_ids.SAVE, className="quiet"),
                    html.Button("Delete view", id=fleet_ids.FORGET, className="quiet", hidden=True),
                    html.Span(id=fleet_ids.VIEW_STATE, className="hint", role="status"),
                ],
                className="views",
            ),
            html.Button("CSV", id=fleet_ids.CSV, className="quiet", title="Save the rows that are shown as CSV"),
            html.Button(
                "Wall", id=fleet_ids.WALL, className="quiet", title="For a big screen: larger, without controls"
            ),
        ],
    )


def view_options(views: Sequence[ViewItem]) -> list[dict[str, str]]:
    """Return the choices of saved views, in the order of their names."""
    ordered = sorted(views, key=lambda view: view["name"].lower())
    return [{"label": view["name"], "value": view["id"]} for view in ordered]


def _choice(name: str, label: str, options: object, *, value: str | None = None, empty: str = "") -> Component:
    chosen = dcc.Dropdown(id=name, options=options, value=value, placeholder=empty, className="choose")
    return html.Div([html.Span(label, className="unseen control-label"), chosen], className="control")


def _columns() -> Component:
    names = {str(column["field"]): str(column["headerName"]) for column in COLUMNS if column["field"] != "run"}
    shown = [name for name in names if name not in HIDDEN_AT_FIRST]
    boxes = dcc.Checklist(id=fleet_ids.COLUMNS, options=names, value=shown, className="column-boxes")
    curve = html.Label(
        [
            "Curve of",
            dcc.Input(
                id=fleet_ids.CURVE, type="text", list=CURVES, debounce=True, value="", placeholder="reward (a signal)"
            ),
            html.Datalist([html.Option(value=name) for name in TABLE], id=CURVES),
        ],
        className="curve-choice",
    )
    return html.Details(
        [html.Summary("Columns"), html.Div([curve, boxes], className="column-choice")], className="columns-menu"
    )
