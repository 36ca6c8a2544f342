"""Draws the workspace of a run: every signal as a panel, grouped by the first part of its name, and the controls."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.runs import LeftOutItem
from dashboard.components.small_elements import save_buttons, segmented_choice
from dashboard.figures.curves.token_axis import token_signal
from dashboard.html_text import html_text
from dashboard.ids import workspace as workspace_ids
from dashboard.signal_definitions.lookup import define, unit_of

__all__ = ["groups_of", "left_out_text", "panel_count", "panel_places", "smoothing_of", "workspace", "zoom_of"]

OTHER: Final = "other"
MOST_COLUMNS: Final = 6  # of a group; a wider screen shows groups side by side


def groups_of(signals: Sequence[str]) -> dict[str, list[str]]:
    """Group signals by the part of their names before the first slash; names without a slash are "other"."""
    groups: dict[str, list[str]] = {}
    for signal in sorted(signals):
        first, slash, _ = signal.partition("/")
        groups.setdefault(first if slash else OTHER, []).append(signal)
    return dict(sorted(groups.items(), key=lambda group: (group[0] == OTHER, group[0])))


def workspace(
    signals: Sequence[str], query: Mapping[str, str], *, project: str = "", left_out: LeftOutItem | None = None
) -> Component:
    """Return the controls and an empty place for each panel; the browser asks for the panels that come into view.

    The places are one text of HTML, which assets/panels.js puts into the page. As components, the places of 100 signals
    would keep a browser busy for longer than the first charts.

    Args:
        signals: The names of the run's signals.
        query: The query of the address, which may set the controls.
        project: The project, for which the browser remembers pinned panels.
        left_out: The signals of the run that are not stored.
    """
    return html.Section(
        id=workspace_ids.WORKSPACE,
        className="workspace",
        **{"data-project": project},
        children=[
            dcc.Store(id=workspace_ids.ZOOM, data=zoom_of(query.get("zoom"))),
            dcc.Store(id=workspace_ids.WANTED),
            dcc.Store(id=workspace_ids.DRAWN),
            dcc.Store(id=workspace_ids.EXPORTED),
            dcc.Download(id=workspace_ids.DOWNLOAD),
            html.Div(
                [
                    html.H2(panel_count(signals), id=workspace_ids.COUNT),
                    html.A(className="step-responses", hidden=True),  # assets/step_responses.js
                    _controls(query, signals),
                    html.Span(id=workspace_ids.EXPORT_STATE, role="status", className="export-state"),
                ],
                className="workspace-bar card",
            ),
            html.P(left_out_text(left_out), id=workspace_ids.LEFT_OUT, className="left-out", role="status"),
            html.P(
                "No signal matches.", id=workspace_ids.NONE_FOUND, className="none-found", hidden=True, role="status"
            ),
            html.Div(id=workspace_ids.PLACES, className="panel-groups", **{"data-places": panel_places(signals)}),
        ],
    )


def panel_count(signals: Sequence[str]) -> str:
    """Return the heading of the panels."""
    return f"All signals ({len(signals)})"


def left_out_text(left_out: LeftOutItem | None) -> str:
    """Return how many signals of the run are not stored, since when, why, and what to do; empty if all are stored."""
    if left_out is None:
        return ""
    count = left_out["signals"]
    lost = f"{count:,} signals of a step are" if count > 1 else "A signal is"
    return (
        f"{lost} not stored, such as {left_out['name']}, since step {left_out['from_step']:,}: a run may have "
        f"{left_out['limit']:,} beside those that detectors read. Give a signal one name for all steps, send fewer, or "
        "raise RLVITALS_MAX_SIGNALS of the collector."
    )


def panel_places(signals: Sequence[str]) -> str:
    """Return the places of the panels, as HTML."""
    return html_text([_group(name, held) for name, held in groups_of(signals).items()])


def _controls(query: Mapping[str, str], signals: Sequence[str]) -> Component:
    return html.Div(
        className="workspace-controls",
        children=[
            _label_control(
                "Find",
                dcc.Input(
                    id=workspace_ids.SEARCH,
                    type="search",
                    value=query.get("signals", ""),
                    placeholder="Find signals (regular expression)",
                    debounce=False,
                ),
            ),
            _label_control(
                "Smoothing",
                dcc.Slider(
                    id=workspace_ids.SMOOTHING,
                    min=0,
                    max=0.99,
                    step=0.01,
                    value=smoothing_of(query.get("smoothing")),
                    marks=None,
                    updatemode="mouseup",
                ),
            ),
            segmented_choice(workspace_ids.AXIS, "Horizontal axis", _axes(signals), query.get("x")),
            segmented_choice(workspace_ids.SCALE, "Vertical axis", {"linear": "linear", "log": "log"}, query.get("y")),
            segmented_choice(
                workspace_ids.OUTLIERS,
                "Outliers",
                {"shown": "all points", "hidden": "no outliers"},
                query.get("outliers"),
            ),
        ],
    )


def _axes(signals: Sequence[str]) -> dict[str, str]:
    """Return the horizontal axes; the axis by tokens is among them only if the trainer logs tokens."""
    return {"step": "step", "log": "log step", "time": "time"} | ({"tokens": "tokens"} if token_signal(signals) else {})


def _label_control(label: str, control: Component) -> Component:
    return html.Div([html.Span(label, className="control-label"), control], className=f"control {label.lower()}")


def zoom_of(text: str | None) -> list[float] | None:
    """Read the interval of the axis from the address, two numbers with a comma."""
    try:
        ends = [float(end) for end in (text or "").split(",")]
    except ValueError:
        return None
    return ends if len(ends) == 2 and -math.inf < ends[0] < ends[1] < math.inf else None  # noqa: PLR2004 - two ends


def smoothing_of(given: str | float | None) -> float:
    """Read the smoothing from an address or its control, in 0 to 0.99; a text that is no number is 0."""
    try:
        return min(max(float(given or 0), 0.0), 0.99)
    except ValueError:
        return 0.0


def _group(name: str, signals: Sequence[str]) -> Component:
    head = html.Summary(
        [html.Span(name, className="group-name"), html.Span(str(len(signals)), className="group-count")]
    )
    panels = html.Div([_panel(signal) for signal in signals], className="panels")
    return html.Details(
        [head, panels],
        open=True,
        className="panel-group",
        **{"data-panel-group": name, "data-size": str(min(len(signals), MOST_COLUMNS))},
    )


def _choices(signal: str) -> list[Component]:
    moves = (("earlier", "‹"), ("later", "›"))
    toggles = (("pin", "Pin", "show it first"), ("wide", "Wide", "give it a whole row"))
    return [
        *(
            html.Button(sign, title=f"Move {signal} {way}", **{"data-move": way, "aria-label": f"Move {signal} {way}"})
            for way, sign in moves
        ),
        *(
            html.Button(label, title=f"{label} {signal}: {effect}", **{"data-choice": kind, "aria-pressed": "false"})
            for kind, label, effect in toggles
        ),
    ]


def _panel(signal: str) -> Component:
    unit, definition = unit_of(signal), define(signal)
    csv = html.Button("CSV", title=f"Save every value of {signal} as CSV", **{"data-export": signal})
    return html.Article(
        [
            html.Header(
                [
                    html.H3(
                        [signal, *([html.Span(f" {unit}", className="unit")] if unit else [])],
                        title=f"{signal} (drag it to move the panel)",
                        draggable="true",
                    ),
                    html.Span([*_choices(signal), *save_buttons("png", "svg", chart=signal), csv], className="saves"),
                ]
            ),
            html.P(definition or "a name of the trainer's own", className="definition", title=definition),
            html.Div(className="panel-body"),
        ],
        className="panel card",
        **{"data-panel": signal, "data-chart": signal},
    )
