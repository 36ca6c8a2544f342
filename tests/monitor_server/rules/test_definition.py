"""The allowed content of a rule, and the place in the message of each problem."""

import pytest

from monitor_server.errors import InvalidField
from monitor_server.rules.definition import read_rule

THRESHOLD = {"name": "kl", "condition": "threshold", "signal": "kl/ref", "operator": ">", "value": 1.0}
ABSENCE = {"name": "kl", "condition": "absence", "signal": "kl/ref"}
CHANGE = THRESHOLD | {"condition": "change"}
COMPARISON = THRESHOLD | {"condition": "comparison", "other_run_id": "b", "project": "p"}


@pytest.mark.parametrize(
    "document",
    [
        THRESHOLD,
        THRESHOLD | {"value": 3, "for_steps": 5, "severity": "critical", "message": "look", "enabled": False},
        THRESHOLD | {"operator": "not_finite", "value": None},
        ABSENCE | {"for_seconds": 0.5},
        CHANGE | {"before_steps": 1, "measure": "ratio"},
        CHANGE | {"before_seconds": 60.0},
        COMPARISON | {"other_signal": "kl/old"},
        THRESHOLD | {"value": 1.7976931348623157e308, "signal": "<img src=x onerror=alert(1)> \N{GRINNING FACE}"},
    ],
)
def test_a_rule_has_structured_fields(document):
    """A text in it is only ever shown."""
    stated = read_rule(document)
    assert stated.name == "kl"
    assert read_rule(stated.model_dump(mode="json", exclude_none=True)) == stated


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (THRESHOLD | {"value": float("nan")}, "rules[3].value must be a finite number, got nan"),
        (THRESHOLD | {"value": float("-inf")}, "rules[3].value must be a finite number, got -inf"),
        (THRESHOLD | {"value": 10**400}, "rules[3].value must be a valid number, got a number of more than 19 digits"),
        (THRESHOLD | {"value": True}, "rules[3].value must be a valid number, got True"),
        (THRESHOLD | {"value": "1"}, "rules[3].value must be a valid number, got '1'"),
        (THRESHOLD | {"value": None}, "rules[3]: value must be set with the operator >"),
        (THRESHOLD | {"operator": "not_finite"}, "rules[3]: value must be left out with the operator not_finite"),
        (THRESHOLD | {"operator": "__import__"}, "got '__import__'"),
        (THRESHOLD | {"name": "<b>KL</b>"}, "rules[3].name must be at most 60 lower-case letters"),
        (THRESHOLD | {"name": "a" * 61}, "rules[3].name must be at most 60"),
        (THRESHOLD | {"name": "kl\n"}, "rules[3].name must be at most 60"),
        (THRESHOLD | {"message": "a" * 501}, "rules[3].message must have at most 500 characters"),
        (THRESHOLD | {"message": "a\x1b[2J"}, "rules[3].message must not hold control characters, got 'a\\x1b[2J'"),
        (THRESHOLD | {"signal": ""}, "rules[3].signal must have at least 1 character"),
        (THRESHOLD | {"signal": "\ud800"}, "rules[3].signal must be a valid string"),
        (THRESHOLD | {"limit_of": 1}, "rules[3].limit_of is not known; remove it, or correct its name"),
        (THRESHOLD | {"threshold": 0.5}, "rules[3].threshold is not known; remove it, or correct its name"),
        (CHANGE | {"before_steps": 1, "change": 2}, "rules[3].change is not known; remove it, or correct its name"),
        (THRESHOLD | {"for_steps": -1}, "rules[3].for_steps must be greater than or equal to 0, got -1"),
        (THRESHOLD | {"for_steps": 10**30}, "rules[3].for_steps must be less than or equal to 1000000000"),
        (THRESHOLD | {"for_steps": 1, "for_seconds": 1.0}, "at most one of for_steps and for_seconds must be set"),
        (THRESHOLD | {"condition": "sql"}, "rules[3] must have the condition threshold, change, absence or comparison"),
        ({"name": "kl"}, "rules[3] must have the condition threshold, change, absence or comparison"),
        (7, "rules[3] must be a table of fields, got 7"),
        (ABSENCE, "rules[3]: one of for_steps and for_seconds must be set, and larger than 0"),
        (ABSENCE | {"for_steps": 1, "value": 1.0}, "rules[3].value is not known"),
        (CHANGE, "rules[3]: exactly one of before_steps and before_seconds must be set"),
        (CHANGE | {"before_steps": 0}, "rules[3].before_steps must be greater than or equal to 1"),
        (COMPARISON | {"project": None}, "rules[3]: a comparison needs project or run_id"),
        (COMPARISON | {"run_id": "b"}, "rules[3]: other_run_id must be another run than run_id"),
    ],
)  # fmt: skip
def test_every_problem_is_named_with_its_place(document, message):
    """The message has the condition and the given value, without characters that a terminal would obey."""
    with pytest.raises(InvalidField) as refused:
        read_rule(document, place="rules[3]")
    assert message in str(refused.value)
    assert str(refused.value).isprintable()
