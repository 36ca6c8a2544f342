"""Draws the rules that concern a run, with the state of each."""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.rules import RunRuleItem
from dashboard.components.small_elements import badge

__all__ = ["rule_states"]

NAMES: Final = {
    "firing": "firing",
    "pending": "pending",
    "no_data": "not observed",
    "waiting": "no step yet",
    "ok": "ok",
}
"""The name of each state, in the order in which states are shown."""


def rule_states(rules: Sequence[RunRuleItem]) -> list[Component]:
    """Return the rules of a run, firing rules first; an empty list for a run that no rule concerns."""
    if not rules:
        return []
    order = list(NAMES)
    shown = sorted(rules, key=lambda rule: (order.index(rule["state"]) if rule["state"] in order else -1, rule["name"]))
    head = html.Header([html.H2("Rules"), dcc.Link("All rules", href="/rules")])
    return [html.Div([head, *map(_entry, shown)], className="rule-states")]


def _entry(rule: RunRuleItem) -> Component:
    state = rule["state"]
    label = badge("severity", rule["severity"], text="firing") if state == "firing" else _plain(NAMES.get(state, state))
    return html.Article(
        [
            html.Header([html.Strong(rule["name"]), label]),
            html.P(html.Code(rule["stated"])),
            html.P(_explanation(rule), className="when"),
        ],
        className="rule-state",
        **{"data-state": state},
    )


def _plain(text: str) -> Component:
    return html.Span(text, className="badge")


def _explanation(rule: RunRuleItem) -> str:
    """Return the step since which a rule is in its state, or the data that it lacks."""
    state, step, seen = rule["state"], rule["step"], rule["observed_step"]
    newest = (
        "its signal was never observed"
        if seen is None
        else f"newest value {_short(rule['observed_value'])} at step {seen}"
    )
    if state == "waiting":
        return "it has seen no step since it was made, changed or reset"
    if state == "no_data":
        if seen is not None and seen == step:
            return f"step {step} has no value to compare with; {newest}"
        return f"step {step} does not have its signal; {newest}"
    if state in ("pending", "firing") and rule["since_step"] is not None:
        return f"since step {rule['since_step']}; {newest}"
    return newest


def _short(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"
