"""The place of the answer in a sampled response: by its tags, else the last action, else not observed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.api.schemas.answer_spans import find_answers

SEARCH = ["<think>", "x", "</search>", "fact", "<answer", ">Paris", "</answer>!", "end"]


@pytest.mark.parametrize(
    ("actions", "pieces", "is_cut", "answers", "source"),
    [
        ([[0, 3], [4, 8]], SEARCH, True, [(4, 7)], "tags"),
        ([[0, 3], [4, 6]], SEARCH[:6], True, [(4, 6)], "tags"),  # cut within the answer
        ([[0, 4]], ["so ", "\\box", "ed{", "1}"], False, [(1, 4)], "tags"),
        ([[0, 3]], ["\\boxed{\\frac{1}", "{2}} and ", "\\boxed{3}"], False, [(0, 2), (2, 3)], "tags"),
        ([[0, 2], [3, 4]], ["<answ", "er>", "fed <answer>no</answer>", "x"], False, [(0, 2)], "tags"),
        ([[0, 2], [3, 5]], None, False, [(3, 5)], "last_action"),
        ([[0, 2], [3, 5]], None, True, [], None),
        ([[0, 5]], None, False, [], None),
        ([[0, 1]], ["\\boxed{ never closed"], False, [], None),
    ],
)
def test_an_answer_is_found(actions, pieces, is_cut, answers, source):
    """Feedback between actions is not read, and a token that holds a part of an answer belongs to it."""
    assert find_answers(actions, pieces, is_cut=is_cut) == (answers, source)


@given(st.lists(st.sampled_from(["<answer>", "</answer>", "\\boxed{", "}", "{", "a", ""]), min_size=1, max_size=30))
def test_an_answer_is_a_range_of_its_action(pieces):
    """The model may write any text, also with empty pieces."""
    answers, _ = find_answers([[0, len(pieces)]], pieces, is_cut=False)
    assert all(0 <= first < after <= len(pieces) for first, after in answers)
