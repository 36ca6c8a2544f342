"""The derived columns by which lists of runs are searched, grouped and sorted."""

import math

import pytest

from monitor_server.store.repositories.listed_columns import reward_columns, text_columns


def test_texts_are_searched_and_grouped():
    """The first tag `owner:NAME` names the owner, and the setting is the name without its seed."""
    tags = ["sweep", "owner: Ana", "owner:ben"]
    assert text_columns(project="P", name="grpo-seed_12", title="Ärger", tags=tags) == {
        "search_text": "p grpo-seed_12 ärger sweep owner: ana owner:ben",
        "setting": "grpo",
        "tagged_owner": "Ana",
        "first_tag": "sweep",
    }
    plain = text_columns(project="p", name="seed1", title=None, tags=[])
    assert (plain["setting"], plain["tagged_owner"], plain["first_tag"]) == ("seed1", None, None)
    assert text_columns(project="p", name="r", title=None, tags=["owner: ", "owner:ben"])["tagged_owner"] == "ben"


def test_the_newest_rewards_are_compared_with_the_first():
    """Of 16 rewards the mean of the last 8 minus the mean of the first 8; what is not finite is left out."""
    found = reward_columns([0.25] * 8 + [math.nan, math.inf] + [0.75] * 8)
    assert found == {"reward": 0.75, "reward_change": 0.5}


@pytest.mark.parametrize("rewards", [[], [math.nan], [-math.inf]])
def test_without_a_finite_reward_there_is_none(rewards):
    """The value is not observed, which differs from zero."""
    assert reward_columns(rewards) == {"reward": None, "reward_change": None}


def test_the_largest_rewards_have_no_change():
    """Their sum is beyond the largest float, and the run is processed all the same."""
    assert reward_columns([1e308] * 20) == {"reward": 1e308, "reward_change": None}
