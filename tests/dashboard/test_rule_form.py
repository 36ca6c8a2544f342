"""The form of a rule: what it sends for each condition, and what it holds for a rule that is edited."""

import pytest

from dashboard.components.rules.form import rule_form
from dashboard.components.rules.form_values import FIELDS, fields_of, rule_of, shown_parts
from dashboard.ids import rules as rule_ids
from monitor_server.rules.definition import read_rule

COMMON = {"name": "kl", "signal": "<b>kl</b>", "severity": "critical", "enabled": False}
RULES = [
    COMMON | {"condition": "threshold", "operator": ">", "value": 0.5, "for_steps": 20, "message": "look"},
    COMMON | {"condition": "threshold", "operator": "not_finite", "project": "p"},
    COMMON | {"condition": "change", "operator": "<", "value": 0, "measure": "ratio", "before_seconds": 60.0},
    COMMON | {"condition": "absence", "for_seconds": 3600, "run_id": "r"},
    COMMON
    | {"condition": "comparison", "operator": "!=", "value": 1, "measure": "relative", "project": "p"}
    | {"other_run_id": "b", "other_signal": "s"},
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_edited_and_saved_stays_as_it_is(rule):
    """The form holds all of it, and sends a rule that the collector accepts."""
    fields = fields_of(rule)
    assert fields.keys() == set(FIELDS)
    assert rule_of(fields) == rule
    assert read_rule(rule_of(fields)).name == "kl"


def test_fields_that_a_condition_does_not_have_are_not_sent():
    """What was typed for another condition stays in the form alone."""
    fields = fields_of(RULES[2]) | {"condition": "absence", "for": 5, "other_run_id": "b"}
    assert rule_of(fields) == COMMON | {"condition": "absence", "for_steps": 5}


def test_a_form_that_is_opened_shows_what_its_condition_has():
    """So that nothing below moves when the page is there."""
    form = rule_form([])
    hidden = {name for name in shown_parts("threshold", ">") if _by_id(form, rule_ids.part(name)).hidden}
    assert hidden == {"measure", "before", "other"}


def _by_id(form, wanted):
    return next(each for each in form._traverse() if getattr(each, "id", None) == wanted)


def test_the_form_shows_what_a_condition_has():
    """An absence has neither operator nor value."""
    assert not any(shown_parts("absence", ">").values())
    assert [name for name, is_shown in shown_parts("threshold", "not_finite").items() if is_shown] == ["operator"]
    assert [name for name, is_shown in shown_parts("comparison", ">").items() if is_shown] == [
        "operator", "value", "measure", "other",
    ]  # fmt: skip
