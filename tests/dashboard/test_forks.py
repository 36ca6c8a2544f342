"""The forks of a run on the page of its alert."""

import math

from dashboard.components.alert.forks import fork_cards
from tests.dashboard.trainer_actions import ACTION

CONTROL = {
    "name": "unchanged",
    "steps": 30,
    "is_winner": False,
    "has_diverged": False,
    "reward": 0.289,
    "reward_gain": [0.0, 0.0, 0.0],
    "displacement": -0.0654,
    "displacement_gain": [0.0, 0.0, 0.0],
    "entropy": 0.31,
}
HALF = CONTROL | {
    "name": "half-rate",
    "is_winner": True,
    "reward": 0.539,
    "reward_gain": [0.163, 0.25, 0.337],
    "displacement": -0.0088,
    "displacement_gain": [0.04, 0.057, 0.073],
}
LOST = CONTROL | {
    "name": "kl",
    "has_diverged": True,
    "reward": math.nan,
    "reward_gain": [-math.inf, math.nan, math.inf],
}


def test_forks_stand_side_by_side_with_their_differences_to_the_unchanged_one(texts):
    """The winner and a fork that diverged are named in words; numbers have their intervals."""
    found = texts(fork_cards([ACTION | {"action": "fork", "detail": "half-rate wins", "forks": [CONTROL, HALF, LOST]}]))
    assert found[:2] == ["What would help: forks of this run", "half-rate wins"]
    for said in (
        "goes on",
        "diverged",
        "+0.25 (+0.16 to +0.34)",
        "+0.057 (+0.040 to +0.073)",
        "−0.065",
        "not observed",
    ):
        assert said in found


def test_an_action_without_forks_has_no_card():
    """Nearly all actions have no forks."""
    assert fork_cards([ACTION | {"forks": []}]) == []
