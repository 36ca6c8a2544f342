"""Draws the distribution of the reward, length or the like over the shown responses; a click on a bar selects it."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from dashboard.collector_client.types.responses import ResponseItem
from dashboard.figures.layout import AXIS, base_layout, value_axis
from dashboard.theme import LIGHT, PRIMARY

__all__ = ["SPREADS", "is_chosen", "spread_figure"]

# The quantities that can be drawn, with their units.
SPREADS: Final = {"reward": "", "advantage": "", "length": "tokens", "displacement": "nats a token"}
BARS: Final = 12  # with more different values, each bar holds an interval
MARGIN: Final = {"l": 46, "r": 14, "t": 8, "b": 34}


def spread_figure(responses: Sequence[ResponseItem], *, of: str) -> dict[str, object]:
    """Return a bar for each value, or for each of `BARS` equal intervals, as a plain dict that Plotly reads.

    Args:
        responses: The responses; those without a finite value are left out.
        of: A key of `SPREADS`.
    """
    values = sorted(value for response in responses if math.isfinite(value := _value(response, of)))
    ends = _intervals(values)
    bars = {
        "type": "bar",
        "x": [low / 2 + high / 2 for low, high in ends],
        "y": [sum(low <= value <= high for value in values) for low, high in ends],
        "width": _part_of_range(values, len(ends) + 1) or 0.02 if ends else None,
        "customdata": [list(interval) for interval in ends],
        "marker": {"color": PRIMARY},
        "hovertemplate": f"{of} %{{x:.4~g}}: %{{y}} responses<extra></extra>",
        "meta": {"role": "spread", "signal": "responses"},
    }
    title = f"{of}, {SPREADS[of]}" if SPREADS[of] else of
    layout = {
        **base_layout(MARGIN),
        "clickmode": "event+select",
        "dragmode": False,
        "hovermode": "closest",
        "xaxis": {
            **AXIS,
            "title": {"text": title, "font": {"size": 11.5, "color": LIGHT["muted"]}},
            "fixedrange": True,
        },
        "yaxis": {**value_axis(ticks=3), "ticklabelstandoff": 4, "ticklabelshift": -4},
    }
    return {"data": [bars], "layout": layout}


def is_chosen(response: ResponseItem, selected: Mapping[str, Any] | None, *, of: str) -> bool:
    """Return whether the value of a response is in the clicked bar; True for every response if no bar was clicked."""
    ranges = [point["customdata"] for point in (selected or {}).get("points", [])]
    value = _value(response, of)
    return not ranges or any(low <= value <= high for low, high in ranges)


def _value(response: ResponseItem, of: str) -> float:
    """Return the drawn value of a response; NaN if it was not observed."""
    if of == "length":
        return float(response["length"])
    value = {"advantage": response["advantage"], "displacement": response["displacement"]}.get(of, response["reward"])
    if value is None:
        return math.nan
    return value / max(1, response["length"]) if of == "displacement" else value


def _intervals(values: Sequence[float]) -> list[tuple[float, float]]:
    different = list(dict.fromkeys(values))
    if len(different) <= BARS:
        return [(value, value) for value in different]
    first, last = values[0], values[-1]
    edges = [*(first * (1 - place / BARS) + last * (place / BARS) for place in range(BARS)), last]
    return [
        (low, high if place == BARS - 1 else math.nextafter(high, -math.inf))
        for place, (low, high) in enumerate(pairwise(edges))
    ]


def _part_of_range(values: Sequence[float], parts: int) -> float:
    """Return a part of the range of sorted values; the range of the largest numbers is infinite, and a part is not."""
    return values[-1] / parts - values[0] / parts
