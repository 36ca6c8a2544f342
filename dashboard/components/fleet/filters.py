"""Draws the controls above the table of runs: the summary, the filters, grouping, columns and saved views."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.administration import ViewItem
from dashboard.collector_client.types.runs import RunGroupItem
from dashboard.collector_client.urgency import SEVERITY_ORDER
from dashboard.components.choices import choice_text, choosable
from dashboard.components.fleet.grid_request import STATES
from dashboard.components.fleet.rows import state_of
from dashboard.components.fleet.table import COLUMNS, HIDDEN_AT_FIRST
from dashboard.components.small_elements import badge
from dashboard.ids import fleet as fleet_ids
from dashboard.signal_definitions.lookup import TABLE

__all__ = ["MANY", "FleetCounts", "fleet_filters", "fleet_summary", "view_options"]

MANY: Final = 2
LONGEST_NAME: Final = 200  # letters, of a project
SETTLED_SECONDS: Final = 0.2  # from the last key press until the collector is asked
CURVES: Final = "fleet-curve-names"
GROUPS: Final = {
    "project": "by project",
    "phase": "by phase",
    "status": "by status",
    "setting": "by setting (seeds)",
    "tag": "by tag",
    "owner": "by owner",
}


@dataclass(frozen=True, slots=True)
class FleetCounts:
    """The runs that are not archived by their status, the most urgent projects, and the number of all runs.

    ``only_run`` is the id of the run if there is just one.
    """

    by_status: Sequence[RunGroupItem]
    by_project: Sequence[RunGroupItem]
    total: int
    only_run: str | None = None

    def projects(self, chosen: str | None = None) -> list[str]:
        """Return the names of these projects and of the chosen one, in alphabetical order."""
        names = {*(group["name"] or "" for group in self.by_project), *([chosen] if chosen else [])}
        return choosable(sorted(names))


def fleet_summary(counts: FleetCounts) -> Component:
    """Return one line: how many runs there are, in which state, and how many alerts fire."""
    states: Counter[str] = Counter()
    severities: Counter[str] = Counter()
    for group in counts.by_status:
        states[state_of(group["name"] or "")] += group["runs"]
        severities.update(cast("dict[str, int]", group["alerts"]))
    total = states.total()
    parts = [html.Strong(f"{total:,} run{'' if total == 1 else 's'}")]
    parts += [html.Span(f"{states[name]:,} {name}") for name in STATES if states[name]]
    parts += [
        badge("severity", name, text=f"{severities[name]:,} {name}") for name in SEVERITY_ORDER if severities[name]
    ]
    return html.P(parts, className="summary")


def fleet_filters(
    counts: FleetCounts, views: Sequence[ViewItem] = (), *, project: str | None = None, text: str = ""
) -> Component:
    """Return the filters with the given values; hidden while no filter is set and there is at most one run."""
    if (
        project and len(project) > LONGEST_NAME
    ):  # the menu indexes every part of a name, so the work grows with the square of its length
        project = None
    return html.Div(
        id=fleet_ids.FILTERS,
        className="filters",
        hidden=counts.total < MANY and not project and not text,
        children=[
            dcc.Input(
                id=fleet_ids.TEXT,
                type="search",
                value=text,
                placeholder="Find a run",
                className="find",
                debounce=SETTLED_SECONDS,
                maxLength=200,
            ),
            _choice(fleet_ids.PROJECT, "Project", counts.projects(project), value=project, empty="All projects"),
            html.Fieldset(
                [
                    html.Legend("Status", className="unseen"),
                    dcc.RadioItems(
                        id=fleet_ids.STATUS, options=["all", *STATES], value="all", inline=True, className="segments"
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
            html.Button("CSV", id=fleet_ids.CSV, className="quiet", title="Save all runs that match as CSV"),
            html.Button(
                "Wall", id=fleet_ids.WALL, className="quiet", title="For a big screen: larger, without controls"
            ),
        ],
    )


def view_options(views: Sequence[ViewItem]) -> list[dict[str, str]]:
    """Return the choices of saved views, in the order of their names, with their projects if these differ."""
    has_projects = len({view["project"] for view in views}) > 1
    ordered = sorted(views, key=lambda view: (view["name"].lower(), view["project"] or ""))
    return [
        {"label": choice_text(_view_label(view, has_projects=has_projects)), "value": view["id"]} for view in ordered
    ]


def _view_label(view: ViewItem, *, has_projects: bool) -> str:
    if not has_projects:
        return view["name"]
    return f"{view['name']} ({'every project' if view['project'] is None else 'project ' + view['project']})"


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
