"""Draws the form of a rule, whose parts depend on the condition, and the choices of runs."""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.runs import RunItem
from dashboard.components.rules.form_values import choose_shown_parts, fields_of
from dashboard.components.run_choice import run_choice
from dashboard.components.small_elements import number_input
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


def rule_form(offered: Sequence[RunItem]) -> Component:
    """Return the fields of a rule, empty, with the buttons that try and save it.

    Args:
        offered: The runs that the control offers before the reader types.
    """
    start = fields_of({})
    shown = choose_shown_parts(str(start["condition"]), str(start["operator"]))

    def text(name: str, label: str, **options: object) -> Component:
        return _field(name, label, dcc.Input(id=rule_ids.field(name), value="", autoComplete="off", **options))

    def choice(name: str, label: str, options: dict[str, str]) -> Component:
        control = dcc.Dropdown(id=rule_ids.field(name), options=options, value=start[name], clearable=False)
        return _choice(label, control, _problem(name))

    def run(name: str, label: str, placeholder: str) -> Component:
        control = run_choice(rule_ids.field(name), offered, placeholder=placeholder)
        return _choice(label, control, _problem(name))

    def number(name: str, label: str) -> Component:
        return _field(name, label, number_input(rule_ids.field(name)))

    def part(name: str, *fields: Component) -> Component:
        return html.Div(fields, id=rule_ids.part(name), className="rule-part", hidden=not shown[name])

    return html.Div(
        className="fields form-row",
        children=[
            text("name", "Name (lower-case letters, digits, . _ -)", maxLength=60),
            choice("condition", "Condition", CONDITIONS),
            text("signal", "Signal", maxLength=200),
            part("measure", choice("measure", "Measured as", MEASURES)),
            part("operator", choice("operator", "Operator", OPERATORS)),
            part("value", number("value", "Value")),
            part(
                "before",
                number("before", "Compared with its value this long before"),
                choice("before_unit", "in", UNITS),
            ),
            part(
                "other",
                run("other_run_id", "The other run, of the same project", "choose a run"),
                text("other_signal", "Its signal (empty: the same)", maxLength=200),
            ),
            html.Div(
                [number("for", "For how long (empty: at once)"), choice("for_unit", "in", UNITS)], className="rule-part"
            ),
            text("project", "Project (empty: all)", maxLength=200),
            run("run_id", "Only of this run (empty: all runs)", "all runs"),
            choice("severity", "Severity", SEVERITIES),
            choice("enabled", "Switched", ENABLED),
            text("message", "Text at the beginning of the alert", maxLength=500),
            _choice("Recorded run to try it on", run_choice(rule_ids.TRIED_RUN, offered, placeholder="choose a run")),
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


def _field(name: str, label: str, control: Component) -> Component:
    return html.Div([html.Label(label, htmlFor=control.id), control, _problem(name)], className="field")


def _choice(label: str, *parts: Component) -> Component:
    return html.Div([html.Span(label, className="control-label"), *parts], className="field control")


def _problem(name: str) -> Component:
    return html.Div(id=rule_ids.problem(name), className="field-problem", role="status")
