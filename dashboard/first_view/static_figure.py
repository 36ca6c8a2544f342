"""Draws the run's figure as SVG without a script: the first view, until Plotly has drawn the same figure.

The lines, phases and panel titles stand where Plotly will draw them. A panel shows the lowest and the highest value
instead of ticks.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from dashboard.figures.curves.lines import spell_value
from dashboard.figures.run import MARGIN
from dashboard.theme import PRIMARY

__all__ = ["static_figure"]

SIDE: Final = 1000  # the width and height of the drawing in its own coordinates, which are stretched over the plot
FLAT_SHARE: Final = 0.06  # of the range, above and below a line, as Plotly leaves

Figure = Mapping[str, Any]


def static_figure(figure: Figure) -> str:
    """Return a figure of `run_figure` as HTML."""
    layout = figure["layout"]
    ends = layout["xaxis"]["autorangeoptions"]
    first, last = ends["clipmin"], ends["clipmax"]  # integers, which differ even if they are very large
    lines = [trace for trace in figure["data"] if trace["meta"]["role"] == "line"]
    marks = "".join(_band(shape, first, last) for shape in layout["shapes"] if shape["xref"] == "x")
    notes = "".join(_title(note) for note in layout["annotations"] if note["name"] == "panel-title")
    for axis in dict.fromkeys(trace["yaxis"] for trace in lines):
        held = [trace for trace in lines if trace["yaxis"] == axis]
        described = layout[f"yaxis{axis[1:]}"]
        drawn, labels = _panel(held, described["domain"], first, last, is_log=described["type"] == "log")
        marks, notes = marks + drawn, notes + labels
    notes += f'<span class="still-first">{first:,.0f}</span><span class="still-last">step {last:,.0f}</span>'
    inset = f"{MARGIN['t']}px {MARGIN['r']}px {MARGIN['b']}px {MARGIN['l']}px"
    svg = f'<svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none" aria-hidden="true">{marks}</svg>'
    return f'<div class="still" style="height:{layout["height"]}px"><div style="inset:{inset}">{svg}{notes}</div></div>'


def _panel(
    traces: Sequence[Figure], domain: Sequence[float], first: float, last: float, *, is_log: bool
) -> tuple[str, str]:
    """Return the lines of one panel, and its lowest and highest value as text."""
    values = [y for trace in traces for y in trace["y"] if y is not None]
    if not values:
        return "", ""
    scaled = math.log10 if is_log else float
    low, high = scaled(min(values)), scaled(max(values))
    half = high / 2 - low / 2  # the range itself may be beyond the largest float
    bottom, height = domain[0], (domain[1] - domain[0]) / (1 + 2 * FLAT_SHARE)

    def place(x: float, y: float) -> str:
        inside = (scaled(y) / 2 - low / 2) / half if half >= sys.float_info.min else 0.5
        share = bottom + (inside + FLAT_SHARE) * height
        return f"{(x - first) / (last - first) * SIDE:.1f} {(1 - share) * SIDE:.1f}"

    drawn = ""
    for trace in traces:
        path, is_down = "", False
        for x, y in zip(trace["x"], trace["y"], strict=True):
            if y is not None:
                path += f"L{place(x, y)}" if is_down else f"M{place(x, y)}h0"  # a point between two gaps is a dot
            is_down = y is not None
        name = "primary" if trace["line"]["color"] == PRIMARY else "secondary"
        drawn += f'<path class="still-line" d="{path}" style="stroke:var(--{name})"/>'
    labels = "".join(
        f'<span class="still-value" style="top:{100 * (1 - at):.2f}%">{escape(spell_value(value))}</span>'
        for at, value in ((domain[1], max(values)), (domain[0], min(values)))
    )
    return drawn, labels


def _band(shape: Figure, first: float, last: float) -> str:
    if shape["type"] != "rect":
        return ""
    left, right = ((float(shape[end]) - first) / (last - first) * SIDE for end in ("x0", "x1"))
    top, height = (1 - shape["y1"]) * SIDE, (shape["y1"] - shape["y0"]) * SIDE
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0):.1f}" height="{height:.1f}" '
        f'fill="{escape(str(shape["fillcolor"]))}" opacity="{shape["opacity"]}"/>'
    )


def _title(note: Figure) -> str:
    """Return the title of a panel, whose text is Plotly's HTML; it holds names of this program alone."""
    return f'<span class="still-title" style="top:{100 * (1 - note["y"]):.2f}%">{note["text"]}</span>'
