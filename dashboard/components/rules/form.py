"""Draws the form of a rule, whose parts depend on the condition, and the choice of a run for the dry run."""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.api.types.runs import RunItem
from dashboard.components.rules.form_values import fields_of
from dashboard.ids import rules as rule_ids

__all__ = ["rule_form"]

CONDITIONS: Final = {
    "threshold": "threshold: the value is above or below a number",
    "change": "change: against its own value some time before",
    "absence": "absence: it is not recorded",
    "comparison": "comparison: against another run at the same step",
}
OPERATORS: Final = {
    ">": "> above", ">=": ">= at or above", "<": "< below", "<=": "<= at or below", "==": "== equal to",
    "!=": "!= not equal to", "not_finite": "is NaN or infinite",
}  # fmt: skip
MEASURES: Final = {
    "difference": "difference: now - before", "relative": "relative: (now - before) / |before|",
    "ratio": "ratio: now / before",
}  # fmt: skip
UNITS: Final = {"steps": "steps", "seconds": "seconds"}
SEVERITIES: Final = {"warning": "warning", "critical": "critical"}
ENABLED: Final = {"on": "on", "off": "off"}


def rule_form(runs: Sequence[RunItem]) -> Component:
    """Return the fields of a rule, empty, with the buttons that try and save it."""
    start = fields_of({})
    choices = {run["id"]: f"{run['name']} ({run['project']})" for run in runs}

    def text(name: str, label: str, **options: object) -> Component:
        return _field(label, dcc.Input(id=rule_ids.field(name), value="", autoComplete="off", **options))

    def choice(name: str, label: str, options: dict[str, str]) -> Component:
        control = dcc.Dropdown(id=rule_ids.field(name), options=options, value=start[name], clearable=False)
        return html.Div([html.Span(label, className="control-label"), control], className="field control")

    def number(name: str, label: str) -> Component:
        return _field(label, dcc.Input(id=rule_ids.field(name), type="number", step="any"))

    def part(name: str, *fields: Component) -> Component:
        return html.Div(fields, id=rule_ids.part(name), className="rule-part")

    return html.Div(
        className="fields form-row",
        children=[
            text("name", "Name (lower-case letters, digits, . _ -)", maxLength=60),
            choice("condition", "Condition", CONDITIONS),
            text("signal", "Signal", maxLength=200),
            part("measure", choice("measure", "Measured as", MEASURES)),
            part("operator", choice("operator", "Operator", OPERATORS)),
            part("value", number("value", "Value")),
            part("before", number("before", "Against its value so long before"), choice("before_unit", "in", UNITS)),
            part(
                "other",
                text("other_run_id", "Id of the other run, of the same project", maxLength=200),
                text("other_signal", "Its signal (empty: the same)", maxLength=200),
            ),
            html.Div(
                [number("for", "For how long (empty: at once)"), choice("for_unit", "in", UNITS)], className="rule-part"
            ),
            text("project", "Project (empty: all)", maxLength=200),
            text("run_id", "Id of a run (empty: all runs)", maxLength=200),
            choice("severity", "Severity", SEVERITIES),
            choice("enabled", "Switched", ENABLED),
            text("message", "What the alert says first", maxLength=500),
            html.Div(
                [
                    html.Span("Recorded run to try it on", className="control-label"),
                    dcc.Dropdown(id=rule_ids.TRIED_RUN, options=choices, placeholder="choose a run"),
                ],
                className="field control",
            ),
            html.Div(
                [
                    html.Button("Try it", id=rule_ids.TRY, className="button"),
                    html.Button("Save", id=rule_ids.SAVE, className="button"),
                    html.Button("Empty the form", id=rule_ids.NEW, className="quiet"),
                ],
                className="field-buttons",
            ),
            html.P(id=rule_ids.STATE, role="status", className="calm rule-answer"),
            html.Div(id=rule_ids.TRIED, role="status", className="rule-answer"),
        ],
    )


def _field(label: str, control: Component) -> Component:
    return html.Div([html.Label(label, htmlFor=control.id), control], className="field")
