"""Exact match after the usual normalisation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_hooks.reference.custom_task.exact_match import exact_match, normalise


@pytest.mark.parametrize(
    ("answer", "golden", "is_right"),
    [
        ("Paris", ["Paris"], True),
        (" the  PARIS. ", ["Paris"], True),
        ("Paris", ["Lyon", "paris!"], True),
        ("Paris, France", ["Paris"], False),
        ("U.S.A.", ["USA"], True),
        ("theatre", ["atre"], False),
        ("an apple a day", ["apple day"], True),
        ("", ["Paris"], False),
    ],
)
def test_case_punctuation_and_articles_do_not_count(answer, golden, is_right):
    """Everything else does; one of several golden answers is enough."""
    assert exact_match(answer, golden) is is_right


@given(st.text(max_size=30))
def test_normalising_twice_changes_nothing_but_articles_brought_together(answer):
    """A normalised answer has no upper case, no punctuation and single spaces; it matches itself."""
    once = normalise(answer)
    assert once == " ".join(once.split())
    assert exact_match(answer, [answer])
