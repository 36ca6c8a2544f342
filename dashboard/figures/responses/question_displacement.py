"""Draws the change of the likelihood of correct responses, question by question, at three times of a run.

It is Figure 3 of arXiv 2512.04220 for the reader's run: the questions sorted by their displacement.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from dashboard.collector_client.types.responses import ResponseItem
from dashboard.figures.layout import AXIS, base_layout, value_axis
from dashboard.theme import PRIMARY, SEVERITIES

__all__ = ["question_displacements", "question_figure", "windows_of"]

Figure = dict[str, object]

SHARE: Final = 0.2  # of the run's steps, at each of the three times
GAP: Final = 0.03  # between the charts, as a share of the width
MARGIN: Final = {"l": 56, "r": 12, "t": 30, "b": 34, "pad": 0}


def windows_of(last_step: int) -> list[tuple[str, int, int]]:
    """Return the name, the first and the last step of the first, the middle and the last fifth of a run."""
    length = last_step + 1
    width = max(1, round(SHARE * length))
    begins = {"beginning": 0, "middle": (length - width) // 2, "end": length - width}
    return [(name, begin, begin + width - 1) for name, begin in begins.items()]


def question_displacements(responses: Iterable[ResponseItem]) -> list[float]:
    """Return the mean displacement per token of the correct responses to each question, sorted, in nats.

    A question is a group of one step. Only responses that were sampled at random count, because the responses that were
    selected for their displacement would make every run look worse than it is.
    """
    sums: dict[tuple[int, int, object], tuple[float, int]] = {}
    for item in responses:
        change = item["displacement"]
        if change is None or not math.isfinite(change) or not item["correct"] or "random" not in item["kinds"]:
            continue
        key = (item["step"], item["attempt"], item["id"] if item["group"] is None else item["group"])
        total, tokens = sums.get(key, (0.0, 0))
        sums[key] = (total + change, tokens + max(1, item["length"]))
    return sorted(total / tokens for total, tokens in sums.values())


def question_figure(parts: Sequence[tuple[str, Sequence[float]]]) -> Figure:
    """Draw the sorted displacements of each part side by side, on one value axis, as a plain dict that Plotly reads."""
    width = (1 - GAP * (len(parts) - 1)) / len(parts)
    traces: list[Figure] = []
    layout: Figure = {**base_layout(MARGIN), "bargap": 0, "hovermode": "closest", "annotations": []}
    titles: list[Figure] = []
    for place, (name, values) in enumerate(parts):
        axis = "" if place == 0 else str(place + 1)
        fell = sum(value < 0 for value in values)
        share = f"{fell} of {len(values)} questions fell" if values else "not observed"
        begin = place * (width + GAP)
        traces.append(
            {
                "type": "bar",
                "name": name,
                "x": list(range(1, len(values) + 1)),
                "y": list(values),
                "xaxis": f"x{axis}",
                "yaxis": "y",
                "marker": {"color": [SEVERITIES["critical"] if value < 0 else PRIMARY for value in values]},
                "hovertemplate": "question %{x}: %{y:.4f} nats/token<extra></extra>",
                "meta": {"role": "questions", "signal": name},
            }
        )
        layout[f"xaxis{axis}"] = {**AXIS, "domain": [begin, begin + width], "nticks": 4, "fixedrange": True}
        titles.append(
            {
                "text": f"<b>{name}</b> · {share}",
                "x": begin,
                "y": 1.0,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": 12},
            }
        )
    layout["yaxis"] = value_axis(ticks=5)
    layout["annotations"] = titles
    return {"data": traces, "layout": layout}
