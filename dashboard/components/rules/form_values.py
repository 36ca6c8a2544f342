"""Converts the form of a rule to the API's form, and back. Evaluates no rule."""

import re
from collections.abc import Mapping
from typing import Final

from dashboard.collector_client.types.rules import RuleItem
from dashboard.components.values import read_numbers

__all__ = [
    "FIELDS", "RUNS", "choose_shown_parts", "encode_edited_rule", "fields_of", "problems_by_field", "read_rule_numbers",
    "rule_of",
]  # fmt: skip

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
REFUSED: Final = re.compile(r"The collector answered 4\d\d: (body\.rule: )?")
PLACE: Final = re.compile(r"(the rule: )?((exactly |at most )?one of )?([a-z_]+) ")
# Places in the API's problems that have another name in the form, and the prefix of a problem outside the rule itself.
PLACES: Final = {
    "before_steps": "before", "before_seconds": "before", "for_steps": "for", "for_seconds": "for",
    "a rule named ": "name", "the rule: a comparison needs project ": "project", "no run has the id ": "run_id",
    "run ": "run_id",
}  # fmt: skip
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


def read_rule_numbers(fields: Mapping[str, object]) -> tuple[dict[str, object], dict[str, str]]:
    """Return the form's values with the numbers of the fields that its condition has, and the problem of each field."""
    shown = choose_shown_parts(str(fields.get("condition")), str(fields.get("operator")))
    return read_numbers(fields, ["for", *(name for name in ("value", "before") if shown[name])])


def fields_of(rule: Mapping[str, object]) -> dict[str, object]:
    """Return the values of the form's fields for a rule."""
    found: dict[str, object] = {name: DEFAULTS.get(name) for name in FIELDS}
    found |= {name: value for name, value in rule.items() if name in FIELDS and value is not None}
    found["enabled"] = "off" if rule.get("enabled") is False else "on"
    for name in _WHOLE:
        for unit in ("steps", "seconds"):
            if rule.get(f"{name}_{unit}") is not None:
                found[name], found[f"{name}_unit"] = rule[f"{name}_{unit}"], unit
    return found


def encode_edited_rule(rule: RuleItem) -> dict[str, object]:
    """Return the data about the edited rule that the page keeps."""
    return {"id": rule["id"], "version": rule["version"]}


def problems_by_field(detail: str) -> tuple[dict[str, str], str]:
    """Return the API's problems by field of the form, without their places, and the problems of no field.

    Args:
        detail: Problems with their places, such as ``body.rule: name must be set; the rule: value must ...``.
    """
    found, others, field = dict.fromkeys(FIELDS, ""), [], None
    for part in REFUSED.sub("", detail, count=1).split("; "):
        field = _field_of(part) or field  # a part without a field continues the problem before it
        if field is None:
            others.append(part)
            continue
        problem = part.removeprefix("the rule: ").removeprefix(f"{field} ")
        found[field] = f"{found[field]}; {problem}" if found[field] else problem
    return found, "; ".join(others)


def _field_of(problem: str) -> str | None:
    place = PLACE.match(problem)
    named = "" if place is None else PLACES.get(place[4], place[4])
    if named in FIELDS:
        return named
    return next((field for begin, field in PLACES.items() if problem.startswith(begin)), None)


def choose_shown_parts(condition: str | None, operator: str | None) -> dict[str, bool]:
    """Return which parts of the form a condition has."""
    wanted = OF_CONDITION.get(condition or "threshold", set())
    return {
        "operator": "operator" in wanted,
        "value": "value" in wanted and operator != "not_finite",
        "measure": "measure" in wanted,
        "before": "before" in wanted,
        "other": "other_run_id" in wanted,
    }
