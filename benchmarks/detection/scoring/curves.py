"""Lead against false alarms over all thresholds, and its picture: a point is a threshold, the curve is the detector."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.runs import Group
from benchmarks.detection.scoring.alarms import false_alarms, leads
from benchmarks.detection.scoring.traces import Trace

__all__ = ["Curve", "curve", "picture"]

Curve = list[tuple[float, float]]

# In units of a candidate's own threshold. Our engine has no strength under 1, because a finding begins at its
# threshold.
THRESHOLDS = (1.0, *(float(x) for x in np.geomspace(0.4, 8.0, 25)))

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 480, 64, 250, 44, 52
LOWEST, HIGHEST = 0.003, 100.0  # false alarms per 1,000 rows; none at all is drawn at the left edge
COLOURS = (
    *("#0b6e4f", "#08a045", "#c1121f", "#e07a1f", "#5e3c99", "#1f6fb2", "#8c564b", "#7f7f7f", "#b5179e", "#3a3a3a"),
    *("#c9a227", "#00a5a5", "#f28ab2", "#6b7a1e"),
)


def curve(traces: Sequence[Trace], level: str) -> Curve:
    """Return (false alarms per 1,000 benign rows, mean lead in steps) for thresholds worth choosing; a miss is 0.

    A threshold is worth choosing if none with as few false alarms has more lead. A candidate that only says yes or
    no has one point.
    """
    sick = [trace for trace in traces if trace.truth.group is Group.DISPLACEMENT]
    points = []
    for threshold in THRESHOLDS if _has_strength(traces, level) else (1.0,):
        found = leads(sick, level, threshold=threshold).steps
        rate = false_alarms(traces, level, threshold=threshold).rate
        points.append((rate, float(np.mean(found)) if found else 0.0))
    kept: Curve = []
    for rate, lead in sorted(points, key=lambda point: (point[0], -point[1])):
        if not kept or lead > kept[-1][1]:
            kept.append((rate, lead))
    return kept


def _has_strength(traces: Sequence[Trace], level: str) -> bool:
    """Return whether any alarm has a strength other than 1."""
    return any(bool(np.any((strength != 0.0) & (strength != 1.0))) for strength in _strengths(traces, level))


def _strengths(traces: Sequence[Trace], level: str) -> list[NDArray[np.float32]]:
    return [trace.warn if level == "warn" else trace.page for trace in traces]


def picture(title: str, curves: Mapping[str, Curve]) -> str:
    """Draw curves as SVG; a candidate with a single point is a dot."""
    highest = max((lead for points in curves.values() for _, lead in points), default=0.0)
    top = max(10.0, 10.0 * np.ceil(highest / 10.0))
    marks = [_axes(title, top)]
    for index, (name, points) in enumerate(curves.items()):
        marks.append(_line(name, points, top, index))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n' + "\n".join(marks) + "\n</svg>\n"
    )


def _x(rate: float) -> float:
    share = log10(min(max(rate, LOWEST), HIGHEST) / LOWEST) / log10(HIGHEST / LOWEST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(lead: float, top: float) -> float:
    return TOP + (1.0 - lead / top) * (HEIGHT - TOP - BOTTOM)


def _axes(title: str, top: float) -> str:
    parts = [f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>']
    for rate in (LOWEST, 0.01, 0.1, 1.0, 10.0, 100.0):
        label = "0" if rate == LOWEST else f"{rate:g}"
        parts.append(f'<line x1="{_x(rate):.1f}" x2="{_x(rate):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{_x(rate):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>')
    for lead in np.linspace(0.0, top, 6):
        height = _y(float(lead), top)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{lead:.0f}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">false alarms per 1,000 benign rows</text>'
        f'<text transform="translate(18 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">mean lead, steps</text>'
    )
    return "\n".join(parts)


def _line(name: str, points: Curve, top: float, index: int) -> str:
    colour = COLOURS[index % len(COLOURS)]
    spots = [(_x(rate), _y(lead, top)) for rate, lead in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in spots)
    legend = TOP + 8 + 18 * index
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>{dots}'
        f'<circle cx="{WIDTH - RIGHT + 18}" cy="{legend}" r="4" fill="{colour}"/>'
        f'<text x="{WIDTH - RIGHT + 28}" y="{legend + 4}">{escape(name)}</text>'
    )
