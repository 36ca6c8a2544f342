"""Draws the rules that concern a run, with the state of each."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.rules import RunRuleItem
from dashboard.components.small_elements import badge
from dashboard.html_text import html_text

__all__ = ["rule_states"]

NAMES: Final = {
    "firing": "firing",
    "pending": "pending",
    "undecided": "undecided",
    "no_data": "not observed",
    "waiting": "no step yet",
    "ok": "ok",
}
"""The name of each state, in the order in which states are shown."""
OPEN: Final = 5  # rules that are not folded, which leave room for the figure on a phone


def rule_states(rules: Sequence[RunRuleItem]) -> list[Component]:
    """Return the rules of a run, firing rules first; an empty list for a run that no rule concerns.

    Of many rules those that neither fire nor are pending are folded, as a text of HTML that assets/html_parts.js draws.
    """
    if not rules:
        return []
    order = list(NAMES)
    shown = sorted(rules, key=lambda rule: (order.index(rule["state"]) if rule["state"] in order else -1, rule["name"]))
    head = html.Header([html.H2("Rules"), dcc.Link("All rules", href="/rules")])
    urgent = sum(rule["state"] in {"firing", "pending"} for rule in shown)
    unfolded = len(shown) if len(shown) <= OPEN else urgent
    parts: list[Component] = [head, *map(_entry, shown[:unfolded])]
    if folded := shown[unfolded:]:
        counts = Counter(NAMES.get(rule["state"], rule["state"]) for rule in folded)
        title = html.Summary(", ".join(f"{count:,} {name}" for name, count in counts.items()))
        listed = html.Div(**{"data-html": html_text([_entry(rule) for rule in folded])})
        parts.append(html.Details([title, listed], **{"data-part": "rules"}))
    return [html.Div(parts, className="rule-states")]


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
    """Return the step since which a rule is in its state, or what it lacks to be decided."""
    state, step, seen = rule["state"], rule["step"], rule["observed_step"]
    newest = (
        "the rule knows no value of it"
        if seen is None
        else f"newest value {_short(rule['observed_value'], rule['stated'])} at step {seen}"
    )
    if state == "waiting":
        return "it has seen no step since it was made, changed or reset"
    if state == "no_data":
        if seen is not None and seen == step:
            return f"step {step} has no value to compare with; {newest}"
        return f"step {step} does not have its signal; {newest}"
    if state == "undecided":
        return f"step {step} gives NaN, for which the condition cannot be decided; {newest}"
    if state in ("pending", "firing") and rule["since_step"] is not None:
        return f"since step {rule['since_step']}; {newest}"
    return newest


def _short(value: float | None, stated: str) -> str:
    """Return a value with six digits, or with all if it is whole or its digits would be those of the stated limit."""
    if value is None:
        return "unknown"
    short = f"{value:.6g}"
    return repr(float(value)).removesuffix(".0") if float(value).is_integer() or short in stated.split() else short
