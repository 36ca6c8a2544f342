"""Numbers and steps that people type into text fields."""

import pytest

from dashboard.components.rules.form_values import FIELDS, fields_of, read_rule_numbers
from dashboard.components.values import read_number, read_step
from dashboard.pages.rules import form
from tests.dashboard.callbacks import Callbacks


@pytest.mark.parametrize(
    ("typed", "number"),
    [(None, None), ("  ", None), ("8", 8), (" -1.50 ", -1.5), ("1e-5", 1e-5), ("1E3", 1000), (".5", 0.5), (30.0, 30)],
)
def test_a_number_is_read_and_an_empty_field_holds_none(typed, number):
    """A whole number is an int, as JSON has it; a callback may have set the field to a number."""
    read = read_number(typed)
    assert (read, type(read)) == (number, type(number))


@pytest.mark.parametrize("typed", ["1e", "-", "1,5", "nan", "inf", "1e400", "1_000", "0x1", "１", True, ["1"]])
def test_another_text_is_no_number(typed):
    """It is never taken for an empty field, nor for another number."""
    with pytest.raises(ValueError, match=r"must be a number such as 3, 0\.5 or 1e-3, got .*; correct it"):
        read_number(typed)


@pytest.mark.parametrize("typed", ["-1", "2.5", "²", "1e3", "9007199254740993", "9" * 50, "soon"])
def test_what_is_no_step_is_refused(typed):
    """The message says what must hold, what was typed and what to do."""
    stated = rf"must be a whole number from 0 to 2\^53, got '{typed}'; correct it, or leave the field empty"
    with pytest.raises(ValueError, match=stated):
        read_step(typed)


def test_only_the_numbers_that_a_condition_has_are_read():
    """Nobody could correct a field that is hidden."""
    fields = fields_of({"condition": "absence"}) | {"value": "1e", "before": "x", "for": "3"}
    values, wrong = read_rule_numbers(fields)
    assert (values["for"], set(wrong.values())) == (3, {""})
    wrong = read_rule_numbers(fields | {"condition": "change"})[1]
    assert {name for name, problem in wrong.items() if problem} == {"value", "before"}


def test_a_refused_text_is_said_at_its_own_field_alone():
    """The text may look like the problem of another field; the collector is not asked."""
    page, fields = Callbacks("http://127.0.0.1:1", form), fields_of({"condition": "threshold"})
    fields |= {"value": "1; name must be set"}
    for said, *problems in (
        page.call("save", 1, None, *(fields[name] for name in FIELDS)),
        page.call("try_rule", 1, "run", *(fields[name] for name in FIELDS)),
    ):
        found = dict(zip(FIELDS, problems[-len(FIELDS) :], strict=True))
        assert said in {"Not saved. ", "Not tried. "}
        assert [name for name, problem in found.items() if problem] == ["value"]
        assert found["value"].endswith("got '1; name must be set'; correct it")
