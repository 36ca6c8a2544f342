"""Draws the controls of the page that compares runs."""

from collections.abc import Mapping, Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.runs import RunItem
from dashboard.components.choices import choosable
from dashboard.components.run.workspace import smoothing_of
from dashboard.components.run_choice import run_choice
from dashboard.components.small_elements import segmented_choice
from dashboard.figures.compared_runs import ALIGNMENTS
from dashboard.ids import compare as compare_ids

__all__ = ["controls"]

GROUPINGS: Final = {"runs": "each run", "seeds": "seeds as median and range"}
SCALES: Final = {"linear": "linear", "log": "log"}


def controls(offered: Sequence[RunItem], chosen: Sequence[RunItem], query: Mapping[str, list[str]]) -> Component:
    """Return the choice of runs and signals, the axis, the smoothing and the grouping, set by the address.

    Args:
        offered: The runs that the control offers before the reader types.
        chosen: The runs to compare.
        query: The query of the address.
    """
    signals = choosable(query.get("signal", []))
    align, scale, lines = (query.get(name, [""])[0] for name in ("x", "y", "lines"))
    return html.Section(
        className="card compare-controls",
        children=[
            html.H1("Compare runs"),
            _control(
                "Runs (2 to 20)",
                compare_ids.RUNS,
                run_choice(compare_ids.RUNS, offered, chosen, is_multiple=True, placeholder="type a part of a name"),
            ),
            _control(
                "Signals",
                compare_ids.SIGNALS,
                dcc.Dropdown(
                    id=compare_ids.SIGNALS, options=signals, value=signals, multi=True, placeholder="the vital signs"
                ),
            ),
            html.Div(
                className="workspace-controls",
                children=[
                    segmented_choice(compare_ids.ALIGN, "Align by", ALIGNMENTS, align),
                    segmented_choice(compare_ids.SCALE, "Vertical axis", SCALES, scale),
                    segmented_choice(compare_ids.GROUP, "Lines", GROUPINGS, lines),
                    _control(
                        "Smoothing",
                        compare_ids.SMOOTHING,
                        dcc.Slider(
                            id=compare_ids.SMOOTHING,
                            min=0,
                            max=0.99,
                            step=0.01,
                            value=smoothing_of(query.get("smoothing", [""])[0]),
                            marks=None,
                            updatemode="mouseup",
                        ),
                        name="smoothing",
                    ),
                ],
            ),
        ],
    )


def _control(label: str, name_of: str, control: Component, *, name: str = "wide") -> Component:
    return html.Div(
        [html.Label(label, htmlFor=name_of, className="control-label"), control], className=f"control {name}"
    )
