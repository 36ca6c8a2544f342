"""Draws how many of the responses that are shown have which reward; a click on a bar chooses it."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from dashboard.api.types.responses import ResponseItem
from dashboard.figures.layout import AXIS, base_layout, value_axis
from dashboard.theme import PRIMARY

__all__ = ["has_chosen_reward", "reward_figure"]

BARS: Final = 12  # of more different rewards each bar holds an interval
MARGIN: Final = {"l": 46, "r": 14, "t": 8, "b": 34}


def reward_figure(responses: Sequence[ResponseItem]) -> dict[str, object]:
    """Return a bar for each reward, or for each of `BARS` equal intervals, as a plain dict that Plotly reads."""
    rewards = sorted(response["reward"] for response in responses if math.isfinite(response["reward"]))
    ends = _intervals(rewards)
    bars = {
        "type": "bar",
        "x": [(low + high) / 2 for low, high in ends],
        "y": [sum(low <= reward <= high for reward in rewards) for low, high in ends],
        "width": max((rewards[-1] - rewards[0]) / (len(ends) + 1), 0.02) if ends else None,
        "customdata": [list(interval) for interval in ends],
        "marker": {"color": PRIMARY},
        "hovertemplate": "reward %{x:.4~g}: %{y} responses<extra></extra>",
        "meta": {"role": "rewards", "signal": "responses"},
    }
    layout = {
        **base_layout(MARGIN),
        "clickmode": "event+select",
        "dragmode": False,
        "hovermode": "closest",
        "xaxis": {**AXIS, "title": {"text": "reward"}, "fixedrange": True},
        "yaxis": {**value_axis(is_log=False, dtick=None, ticks=3), "fixedrange": True},
    }
    return {"data": [bars], "layout": layout}


def has_chosen_reward(response: ResponseItem, selected: Mapping[str, Any] | None) -> bool:
    """Say whether the reward of a response is that of a bar that was clicked; without one every response is shown."""
    ranges = [point["customdata"] for point in (selected or {}).get("points", [])]
    return not ranges or any(low <= response["reward"] <= high for low, high in ranges)


def _intervals(rewards: Sequence[float]) -> list[tuple[float, float]]:
    different = list(dict.fromkeys(rewards))
    if len(different) <= BARS:
        return [(reward, reward) for reward in different]
    width = (rewards[-1] - rewards[0]) / BARS
    edges = [*(rewards[0] + width * place for place in range(BARS)), rewards[-1]]
    return [
        (low, high if place == BARS - 1 else math.nextafter(high, -math.inf))
        for place, (low, high) in enumerate(pairwise(edges))
    ]
