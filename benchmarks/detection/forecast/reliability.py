"""The reliability diagram of a suite: the share that collapsed over the forecast, one line for each horizon."""

from collections.abc import Mapping
from html import escape
from math import sqrt

from benchmarks.detection.forecast.scores import Bin, Score

__all__ = ["diagram"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 480, 64, 210, 44, 52
TICKS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
COLOURS = ("#1f6fb2", "#e07a1f", "#0b6e4f")
LARGEST_DOT, SMALLEST_DOT = 9.0, 2.0  # pixels


def diagram(title: str, scores: Mapping[int, Score]) -> str:
    """Draw the bins of each horizon as SVG, on axes with the scale of a square root, because most forecasts are low.

    The area of a dot follows the rows of its bin. A forecast that is right lies on the dashed line.
    """
    marks = [_axes(title)]
    for place, (horizon, found) in enumerate(scores.items()):
        marks.append(_line(f"within {horizon} rows", found.bins, place))
    legend = TOP + 8 + 18 * len(scores)
    notes = ("dashed: forecast = share that", "collapsed; dots grow with the", "number of rows")
    for place, note in enumerate(notes):
        marks.append(f'<text x="{WIDTH - RIGHT + 18}" y="{legend + 14 + 16 * place}" fill="#555">{note}</text>')
    # The background is white in a dark page as well, so that the text stays readable.
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n' + "\n".join(marks) + "\n</svg>\n"
    )


def _x(share: float) -> float:
    return LEFT + sqrt(share) * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return TOP + (1.0 - sqrt(share)) * (HEIGHT - TOP - BOTTOM)


def _axes(title: str) -> str:
    parts = [f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>']
    for tick in TICKS:
        x, y, label = _x(tick), _y(tick), f"{tick:.0%}"
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(
        f'<line x1="{_x(0.0):.1f}" y1="{_y(0.0):.1f}" x2="{_x(1.0):.1f}" y2="{_y(1.0):.1f}" stroke="#888" '
        'stroke-dasharray="5 4"/>'
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">forecast</text>'
        f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">share that collapsed</text>'
    )
    return "\n".join(parts)


def _line(name: str, bins: tuple[Bin, ...], place: int) -> str:
    colour, most = COLOURS[place % len(COLOURS)], max((found.rows for found in bins), default=1)
    path = " ".join(f"{_x(found.forecast):.1f},{_y(found.observed):.1f}" for found in bins)
    dots = "".join(
        f'<circle cx="{_x(found.forecast):.1f}" cy="{_y(found.observed):.1f}" '
        f'r="{max(SMALLEST_DOT, LARGEST_DOT * sqrt(found.rows / most)):.1f}" fill="{colour}" fill-opacity="0.6"/>'
        for found in bins
    )
    legend = TOP + 8 + 18 * place
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>{dots}'
        f'<circle cx="{WIDTH - RIGHT + 22}" cy="{legend}" r="4" fill="{colour}"/>'
        f'<text x="{WIDTH - RIGHT + 32}" y="{legend + 4}">{escape(name)}</text>'
    )
