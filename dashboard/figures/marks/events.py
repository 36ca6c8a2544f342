"""Draws the events of a run: a symbol above the panels with words on hover, and a line where an attempt begins."""

from collections.abc import Callable, Sequence
from html import escape
from textwrap import wrap
from typing import Final

from dashboard.collector_client.types.runs import MarkItem
from dashboard.theme import LIGHT, PRIMARY, SECONDARY

__all__ = ["mark_lines", "mark_trace"]

Figure = dict[str, object]

SYMBOLS: Final = {  # of several marks at a step the first of these is drawn
    "rewind": ("triangle-left", LIGHT["muted"]),
    "action": ("diamond", PRIMARY),
    "comment": ("circle", SECONDARY),
    "acknowledgement": ("circle-open", SECONDARY),
    "attempt": ("line-ns-open", LIGHT["muted"]),
}
WITH_LINES: Final = frozenset({"attempt", "rewind"})
CHARACTERS: Final = 56
MOST_LINES: Final = 6  # of the words of one mark
MOST_NAMED: Final = 5  # of the marks of one step


def mark_lines(marks: Sequence[MarkItem]) -> list[Figure]:
    """Return a thin vertical line for each step at which an attempt begins."""
    return [
        {
            "type": "line",
            "name": "mark",
            "xref": "x",
            "yref": "paper",
            "x0": step,
            "x1": step,
            "y0": 0,
            "y1": 1,
            "line": {"color": LIGHT["muted"], "width": 1, "dash": "dash"},
        }
        for step in dict.fromkeys(mark["step"] for mark in marks if mark["kind"] in WITH_LINES)
    ]


def mark_trace(marks: Sequence[MarkItem], *, axis: str, height: float, place: Callable[[int], float] = float) -> Figure:
    """Return one symbol for each step that has marks, with the words of all of them.

    Args:
        marks: The marks.
        axis: The y axis.
        height: The position of the symbols on the y axis.
        place: Returns the position of a step on the x axis.
    """
    held: dict[int, list[MarkItem]] = {}
    for mark in marks:
        held.setdefault(mark["step"], []).append(mark)
    shown = [_symbol(group) for group in held.values()]
    return {
        "type": "scatter",
        "mode": "markers",
        "xaxis": "x",
        "yaxis": axis,
        "name": "marks",
        "showlegend": False,
        "cliponaxis": False,
        "x": [place(step) for step in held],
        "y": [height] * len(held),
        "marker": {
            "symbol": [symbol for symbol, _ in shown],
            "size": 9,
            "color": [colour for _, colour in shown],
            "line": {"width": 1.4, "color": [colour for _, colour in shown]},
        },
        "hovertext": [_stories(group) for group in held.values()],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "meta": {"role": "events"},
    }


def _symbol(marks: Sequence[MarkItem]) -> tuple[str, str]:
    kinds = {mark["kind"] for mark in marks}
    return next((symbol for kind, symbol in SYMBOLS.items() if kind in kinds), SYMBOLS["attempt"])


def _stories(marks: Sequence[MarkItem]) -> str:
    more = [f"and {len(marks) - MOST_NAMED} more"] if len(marks) > MOST_NAMED else []
    return "<br>".join([*map(_story, marks[:MOST_NAMED]), *more])


def _story(mark: MarkItem) -> str:
    by = f" by {mark['by']}" if mark["by"] else ""
    lines = wrap(mark["text"], CHARACTERS)
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], "…"]
    return "<br>".join([f"<b>{escape(mark['kind'])}{escape(by)}</b>", *(escape(line) for line in lines)])
