"""Draws the list of rules, and the result of a dry run."""

from collections.abc import Sequence
from typing import Final

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.alerts import RULE_PREFIX
from dashboard.collector_client.types.rules import DryRunItem, RuleItem
from dashboard.components.small_elements import badge
from dashboard.ids import rules as rule_ids

__all__ = ["dry_run_table", "rule_table"]

MAX_SHOWN: Final = 20


def rule_table(rules: Sequence[RuleItem]) -> Component:
    """Return the rules, the newest first; a rule of a file has no buttons, because it is changed in its file."""
    if not rules:
        return html.P("There is no rule yet. Fill in the form, and try it on a recorded run.", className="calm")
    heads = ("name", "concerns", "states", "severity", "switched", "made by", "")
    head = html.Thead(html.Tr([html.Th(name, scope="col") if name else html.Td() for name in heads]))
    return html.Div(
        html.Table([head, html.Tbody([_row(item) for item in rules])], className="rules-table"),
        className="scroll",
        tabIndex="0",
    )


def dry_run_table(tried: DryRunItem) -> Component:
    """Return when a rule would have fired, in words and as a list."""
    count = tried["episode_count"]
    times = "once" if count == 1 else f"{count} times"
    outcome = {
        "no_data": f"No data: none of the {tried['steps']} steps that were read has what the rule needs.",
        "quiet": f"It would not have fired in {tried['steps']} steps, of which {tried['observed']} have what it needs.",
        "fired": f"It would have fired {times} in {tried['steps']} steps.",
    }[tried["state"]]
    parts: list[Component] = [html.P([html.Strong(outcome), " ", html.Code(tried["stated"])])]
    shown = tried["episodes"][:MAX_SHOWN]
    if shown:
        parts.append(html.Ol([html.Li(_episode(each)) for each in shown]))
    if count > len(shown):
        parts.append(html.P(f"And {count - len(shown)} more times."))
    if not tried["is_complete"]:
        after = "Later steps" if tried["last_step"] is None else f"Steps after {tried['last_step']}"
        attempt = tried.get("last_attempt")
        if attempt is not None:
            after += f" of attempt {attempt}, and later attempts,"
        parts.append(html.P(f"{after} were not read: a dry run has a limit."))
    return html.Div(parts)


def _episode(episode: dict[str, object]) -> str:
    resolved = episode["resolved_step"]
    end = "still firing at the end" if resolved is None else f"resolved at step {resolved}"
    return f"Step {episode['fired_step']}, {end}: {episode['summary']}"


def _row(item: RuleItem) -> Component:
    rule, name = item["rule"], item["kind"].removeprefix(RULE_PREFIX)
    if rule is None:
        delete = html.Div([_button("Delete", "delete", item["id"], name)], className="rule-buttons")
        return html.Tr([html.Th(name, scope="row"), html.Td(item["stated"], colSpan=5), html.Td(delete)])
    where = "every project" if rule.get("project") is None else f"project {rule['project']}"
    if rule.get("run_id") is not None:
        where = f"run {rule['run_id']}"
    is_enabled = bool(rule.get("enabled", True))
    made = item["created_by"] if item["file_set"] is None else f"file set {item['file_set']}"
    buttons: list[Component] = [_button("Delete", "delete", item["id"], name)]
    if item["file_set"] is None:
        switch = "off" if is_enabled else "on"
        buttons = [
            _button("Edit", "edit", item["id"], name),
            _button(f"Switch {switch}", switch, item["id"], name),
            *buttons,
        ]
    cells = (where, html.Code(item["stated"]), badge("severity", str(rule["severity"])), "on" if is_enabled else "off")
    return html.Tr(
        [
            html.Th(name, scope="row"),
            *map(html.Td, cells),
            html.Td(made),
            html.Td(html.Div(buttons, className="rule-buttons")),
        ]
    )


def _button(label: str, action: str, rule_id: str, name: str) -> Component:
    return html.Button(
        label, id=rule_ids.button(action, rule_id), className="quiet", **{"aria-label": f"{label}: {name}"}
    )
