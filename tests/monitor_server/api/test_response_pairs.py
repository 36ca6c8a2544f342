"""Displaced correct responses, each beside the incorrect one of its group that resembles it most."""

import pytest

from tests.sampled_responses import array, response


def right(fall, *, group, **given):
    tokens = {"displacement": fall, "displacements": array([fall, 0.0, 0.0], "float16")}
    return response(group=group, **tokens, **given)


def wrong(ids, *, group):
    return response(correct=False, reward=0.0, group=group, token_ids=array(ids, "int32"))


@pytest.fixture
def paired(collector, run_name):
    """A run whose correct responses fell in two groups of two steps; in a third group nothing is incorrect."""
    per_step = {
        1: [right(-0.5, group=1), wrong([7, 5, 9, 7], group=1), wrong([7, 8, 9, 5], group=1)],
        2: [right(-0.9, group=1), wrong([7, 8, 5, 5], group=1), right(-2.0, group=2), right(0.5, group=3)],
    }
    for step, responses in per_step.items():
        records = [{"step": step, "scalars": {"a": 1.0}, "responses": responses}]
        run_id = collector.send(run=run_name, records=records)["run_id"]
    return collector, run_id


def test_the_most_displaced_response_comes_first_with_the_most_alike(paired):
    """Each has one pair, within its step and group; a response without an incorrect one beside it is left out."""
    live, run_id = paired
    found = live.get(f"/runs/{run_id}/response-pairs")
    by_id = {item["id"]: item for item in found["responses"]}
    assert found["measure"] == "displacement"
    assert [(by_id[pair["displaced"]]["displacement"], pair["shared_prefix"]) for pair in found["pairs"]] == [
        (-0.9, 2),
        (-0.5, 3),
    ]
    assert [by_id[pair["response"]]["token_ids"] for pair in found["pairs"]] == [[7, 8, 5, 5], [7, 8, 9, 5]]


def test_steps_and_number_of_pairs_are_chosen(paired):
    """An answer holds the responses of its pairs alone."""
    live, run_id = paired
    path = f"/runs/{run_id}/response-pairs"
    assert [item["step"] for item in live.get(path, to_step=1)["responses"]] == [1, 1]
    assert [item["step"] for item in live.get(path, limit=1)["responses"]] == [2, 2]
    assert live.get(path, from_step=3) == {"measure": None, "pairs": [], "responses": []}
