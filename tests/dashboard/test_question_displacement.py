"""The distribution of displacement over questions, at three times of a run."""

import math

from dashboard.figures.responses.question_displacement import question_displacements, question_figure, windows_of


def response(step, group, displacement, **given):
    held = {"id": f"{step}-{group}-{displacement}", "step": step, "attempt": 1, "group": group, "length": 10}
    return held | {"displacement": displacement, "correct": True, "kinds": ["random"]} | given


def test_a_run_has_a_beginning_a_middle_and_an_end():
    """A fifth of 100 steps each; of a run of one step all three are that step."""
    assert windows_of(99) == [("beginning", 0, 19), ("middle", 40, 59), ("end", 80, 99)]
    assert [(first, last) for _, first, last in windows_of(0)] == [(0, 0)] * 3


def test_each_question_has_the_mean_change_of_a_token_of_its_correct_responses():
    """(−2 + 1) / 20 tokens of one group, and 3 / 10 of the other; the smallest first."""
    held = [response(1, 4, 3.0), response(1, 3, -2.0), response(1, 3, 1.0)]
    assert question_displacements(held) == [-0.05, 0.3]


def test_only_random_correct_responses_that_were_measured_count():
    """The most displaced ones were chosen because they fell."""
    left_out = [
        response(1, 1, -9.0, kinds=["displaced"]),
        response(1, 2, -9.0, correct=False),
        response(1, 3, None),
        response(1, 4, math.nan),
    ]
    assert question_displacements(left_out) == []


def test_the_figure_states_how_many_questions_fell():
    """One chart for each time, on one value axis; a time without responses is not observed."""
    drawn = question_figure([("beginning", [-0.1, 0.2, 0.3]), ("end", [])])
    assert [trace["y"] for trace in drawn["data"]] == [[-0.1, 0.2, 0.3], []]
    texts = [held["text"] for held in drawn["layout"]["annotations"]]
    assert texts == ["<b>beginning</b> · 1 of 3 questions fell", "<b>end</b> · not observed"]
    assert {trace["yaxis"] for trace in drawn["data"]} == {"y"}
