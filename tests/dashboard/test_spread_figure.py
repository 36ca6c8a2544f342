"""The number of responses for each value, and the responses that a clicked bar chooses."""

import math
import sys

import pytest

from dashboard.figures.responses.spread import BARS, is_chosen, spread_figure


def responses(*rewards):
    return [{"reward": reward, "advantage": None, "displacement": 6.0, "length": 3} for reward in rewards]


def test_each_reward_has_a_bar_with_its_number_of_responses():
    """NaN has no place on an axis; no response gives no bar."""
    (bars,) = spread_figure(responses(1.0, 0.0, 1.0, math.nan), of="reward")["data"]
    assert (bars["x"], bars["y"]) == ([0.0, 1.0], [1, 2])
    assert spread_figure([], of="reward")["data"][0]["x"] == []


def test_of_many_rewards_each_response_is_in_one_bar():
    """0, 1, ..., 99 in twelve intervals."""
    (bars,) = spread_figure(responses(*map(float, range(100))), of="reward")["data"]
    assert len(bars["x"]) == BARS
    assert sum(bars["y"]) == 100
    chosen = [
        [
            item["reward"]
            for item in responses(*map(float, range(100)))
            if is_chosen(item, clicked(interval), of="reward")
        ]
        for interval in bars["customdata"]
    ]
    assert [len(each) for each in chosen] == bars["y"]


def test_rewards_as_far_apart_as_numbers_can_be_have_their_bars():
    """Their range is infinite, and all bars were empty."""
    rewards = [sys.float_info.max * (place / 10 - 1) for place in range(21)]
    (bars,) = spread_figure(responses(*rewards), of="reward")["data"]
    assert sum(bars["y"]) == len(rewards)
    assert all(map(math.isfinite, [*bars["x"], bars["width"]]))


@pytest.mark.parametrize(("of", "where"), [("advantage", []), ("length", [3.0]), ("displacement", [2.0])])
def test_other_values_are_spread_likewise(of, where):
    """The displacement of 6 nats over 3 tokens is 2 nats a token; an advantage that was not observed has no bar."""
    figure = spread_figure(responses(1.0, 0.0), of=of)
    assert figure["data"][0]["x"] == where
    assert [is_chosen(item, clicked([2.0, 3.0]), of=of) for item in responses(1.0)] == [bool(where)]


def test_without_a_clicked_bar_every_response_is_shown():
    """This also holds after the choice was taken back, which Plotly states as None or as no point."""
    (item,) = responses(math.nan)
    assert all(is_chosen(item, selected, of="reward") for selected in (None, {}, {"points": []}))
    assert not is_chosen(item, clicked([0.0, 1.0]), of="reward")


def clicked(interval):
    return {"points": [{"customdata": interval}]}
