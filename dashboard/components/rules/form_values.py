"""Converts the form of a rule to what the API takes, and back. No rule is evaluated here."""

from collections.abc import Mapping
from typing import Final

from dashboard.api.types.rules import RuleItem

__all__ = ["FIELDS", "RUNS", "edited_of", "fields_of", "rule_of", "shown_parts"]

FIELDS: Final = (
    "name", "condition", "signal", "project", "run_id", "operator", "value", "measure", "before", "before_unit",
    "other_run_id", "other_signal", "for", "for_unit", "severity", "message", "enabled",
)  # fmt: skip
RUNS: Final = ("run_id", "other_run_id")  # fields that choose a run
DEFAULTS: Final[Mapping[str, object]] = {
    "condition": "threshold", "operator": ">", "measure": "difference", "before_unit": "steps", "for_unit": "steps",
    "severity": "warning", "enabled": "on",
}  # fmt: skip
OF_CONDITION: Final = {
    "threshold": {"operator", "value"},
    "change": {"operator", "value", "measure", "before"},
    "comparison": {"operator", "value", "measure", "other_run_id", "other_signal"},
    "absence": set(),
}
_COMMON: Final = ("name", "signal", "project", "run_id", "severity", "message")
_WHOLE: Final = ("before", "for")


def rule_of(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the rule that the form states, without the fields that its condition does not have."""
    condition = str(fields.get("condition") or "threshold")
    wanted = OF_CONDITION.get(condition, set())
    rule: dict[str, object] = {"condition": condition, "enabled": fields.get("enabled") != "off"}
    for name in (*_COMMON, *sorted(wanted - set(_WHOLE))):
        given = fields.get(name)
        if given not in (None, ""):
            rule[name] = given.strip() if isinstance(given, str) else given
    if rule.get("operator") == "not_finite":
        rule.pop("value", None)
    for name in ("for", *(wanted & {"before"})):
        amount = fields.get(name)
        if amount not in (None, ""):
            rule[f"{name}_{fields.get(f'{name}_unit') or 'steps'}"] = amount
    return rule


def fields_of(rule: Mapping[str, object]) -> dict[str, object]:
    """Return what the form holds for a rule."""
    found: dict[str, object] = {name: DEFAULTS.get(name) for name in FIELDS}
    found |= {name: value for name, value in rule.items() if name in FIELDS and value is not None}
    found["enabled"] = "off" if rule.get("enabled") is False else "on"
    for name in _WHOLE:
        for unit in ("steps", "seconds"):
            if rule.get(f"{name}_{unit}") is not None:
                found[name], found[f"{name}_unit"] = rule[f"{name}_{unit}"], unit
    return found


def edited_of(rule: RuleItem) -> dict[str, object]:
    """Return what the page keeps of the rule that the form changes."""
    return {"id": rule["id"], "version": rule["version"]}


def shown_parts(condition: str | None, operator: str | None) -> dict[str, bool]:
    """Return which parts of the form a condition has."""
    wanted = OF_CONDITION.get(condition or "threshold", set())
    return {
        "operator": "operator" in wanted,
        "value": "value" in wanted and operator != "not_finite",
        "measure": "measure" in wanted,
        "before": "before" in wanted,
        "other": "other_run_id" in wanted,
    }
