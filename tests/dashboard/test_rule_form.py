"""The form of a rule: the fields that it sends for each condition, and those that it holds for an edited rule."""

import pytest

from dashboard.components.rules.form import rule_form
from dashboard.components.rules.form_values import FIELDS, choose_shown_parts, fields_of, problems_by_field, rule_of
from dashboard.components.rules.tables import dry_run_table
from dashboard.ids import rules as rule_ids
from monitor_server.errors import InvalidField
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


@pytest.mark.parametrize(
    ("detail", "expected", "left"),
    [
        ("422: body.rule: name must be set; signal must be set", {"name": "must be set", "signal": "must be set"}, ""),
        ("422: body.rule: name must be short, got 'a; b'", {"name": "must be short, got 'a; b'"}, ""),
        ("422: body.rule: the rule: value must be set", {"value": "must be set"}, ""),
        ("409: a rule named 'kl' was made by hand; choose another", {"name": None}, ""),
        ("422: run 'x' belongs to another project than 'p'", {"run_id": None}, ""),
        ("409: 'name': at most 100 rules can belong to p; delete one first", {}, None),
        ("409: the rule 'name' was changed by ann since it was read; read it again", {}, None),
    ],
)
def test_what_the_collector_refuses_is_said_at_its_field(detail, expected, left):
    """The message omits the name of the field, which stands above it; messages without a field stay together."""
    said = detail.partition(": ")[2]
    found, other = problems_by_field(f"The collector answered {detail}")
    assert {name: text for name, text in found.items() if text} == {
        name: said if text is None else text for name, text in expected.items()
    }
    assert other == (said if left is None else left)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": "A b"}, "name"),
        ({"value": None}, "value"),
        ({"value": 2.0, "operator": "about"}, "operator"),
        ({"condition": "change"}, "before"),
        ({"condition": "change", "before": 0}, "before"),
        ({"condition": "absence"}, "for"),
        ({"condition": "absence", "for": -1, "for_unit": "seconds"}, "for"),
        ({"condition": "comparison"}, "other_run_id"),
        ({"condition": "comparison", "other_run_id": "b"}, "project"),
        ({"condition": "comparison", "other_run_id": "b", "run_id": "b"}, "other_run_id"),
        ({"severity": "odd"}, "severity"),
        ({"message": "a\x00"}, "message"),
    ],
)
def test_every_refusal_of_the_collectors_own_rules_has_a_field(changed, field):
    """The words of the collector are read, so a change of them must not lose their place."""
    fields = fields_of({}) | {"name": "kl", "signal": "kl", "value": 1.0} | changed
    with pytest.raises(InvalidField) as refused:
        read_rule(rule_of(fields))
    found, other = problems_by_field(f"The collector answered 422: body.rule: {refused.value}")
    assert ([name for name, text in found.items() if text], other) == ([field], "")


def test_fields_that_a_condition_does_not_have_are_not_sent():
    """Text that was typed for another condition stays in the form alone."""
    fields = fields_of(RULES[2]) | {"condition": "absence", "for": 5, "other_run_id": "b"}
    assert rule_of(fields) == COMMON | {"condition": "absence", "for_steps": 5}


def test_a_form_that_is_opened_shows_what_its_condition_has():
    """Nothing below the form moves when the page is there."""
    form = rule_form([])
    hidden = {name for name in choose_shown_parts("threshold", ">") if _by_id(form, rule_ids.part(name)).hidden}
    assert hidden == {"measure", "before", "other"}


def _by_id(form, wanted):
    walk = form._traverse()  # noqa: SLF001 - Dash has no public one
    return next(each for each in walk if getattr(each, "id", None) == wanted)


def test_the_form_shows_what_a_condition_has():
    """An absence has neither operator nor value."""
    assert not any(choose_shown_parts("absence", ">").values())
    assert [name for name, is_shown in choose_shown_parts("threshold", "not_finite").items() if is_shown] == [
        "operator"
    ]
    assert [name for name, is_shown in choose_shown_parts("comparison", ">").items() if is_shown] == [
        "operator", "value", "measure", "other",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("attempt", "step", "unread"),
    [
        ({"last_attempt": 2}, 89, "Steps after 89 of attempt 2, and later attempts,"),
        ({"last_attempt": None}, None, "Later steps"),
        ({}, 89, "Steps after 89"),  # of an older collector
    ],
)
def test_a_dry_run_that_was_cut_names_what_it_has_not_read(attempt, step, unread, texts):
    """An earlier attempt may have been read to a higher step, and nothing at all if its time ended first."""
    tried = {"state": "quiet", "stated": "kl > 1", "steps": 9, "observed": 9, "episode_count": 0, "episodes": []}
    cut = attempt | {"last_step": step, "is_complete": False}
    assert texts(dry_run_table(tried | cut))[-1] == f"{unread} were not read: a dry run has a limit."
