"""How many responses have which reward, and which responses a clicked bar chooses."""

import math

from dashboard.figures.responses.rewards import BARS, has_chosen_reward, reward_figure


def responses(*rewards):
    return [{"reward": reward} for reward in rewards]


def test_each_reward_has_a_bar_with_its_number_of_responses():
    """NaN has no place on an axis; no response gives no bar."""
    (bars,) = reward_figure(responses(1.0, 0.0, 1.0, math.nan))["data"]
    assert (bars["x"], bars["y"]) == ([0.0, 1.0], [1, 2])
    assert reward_figure([])["data"][0]["x"] == []


def test_of_many_rewards_each_response_is_in_one_bar():
    """0, 1, ..., 99 in twelve intervals."""
    (bars,) = reward_figure(responses(*map(float, range(100))))["data"]
    assert len(bars["x"]) == BARS
    assert sum(bars["y"]) == 100
    chosen = [
        [item["reward"] for item in responses(*map(float, range(100))) if has_chosen_reward(item, clicked(interval))]
        for interval in bars["customdata"]
    ]
    assert [len(each) for each in chosen] == bars["y"]


def test_without_a_clicked_bar_every_response_is_shown():
    """Also after the choice was taken back, which Plotly states as None or as no point."""
    (item,) = responses(math.nan)
    assert all(has_chosen_reward(item, selected) for selected in (None, {}, {"points": []}))
    assert not has_chosen_reward(item, clicked([0.0, 1.0]))


def clicked(interval):
    return {"points": [{"customdata": interval}]}
