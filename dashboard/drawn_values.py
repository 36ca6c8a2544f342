"""Writes the values that assets/draw_elements.js draws in a browser: numbers, times, small plots; both must agree."""

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["drawn_value"]

MINUTE, HOUR, TWO_DAYS = 60, 3600, 172_800  # seconds


def drawn_value(props: Mapping[str, object]) -> str:
    """Return the content that the script would draw into an element; empty if it draws none."""
    if "data-number" in props:
        return escape(_number(str(props["data-number"])))
    if "data-epoch" in props:
        return escape(_since(str(props["data-epoch"])))
    if "data-sparkline" in props:
        return _sparkline(json.loads(str(props["data-sparkline"])))
    return ""


def _number(text: str) -> str:
    names = {"": "–", "NaN": "NaN", "Infinity": "∞", "-Infinity": "−∞"}
    if text in names:
        return names[text]
    value = float(text)
    size = abs(value)
    if value == int(value) and size < 1e7:  # noqa: PLR2004 - as in assets/draw_elements.js
        shown = f"{value:,.0f}"
    elif size >= 1e5 or size < 1e-3:  # noqa: PLR2004 - likewise
        shown = re.sub(r"e\+?(-?)0*(\d)", r"e\1\2", f"{value:.2e}")
    else:
        shown = f"{value:.{1 if size >= 100 else 2 if size >= 10 else 3}f}"  # noqa: PLR2004 - likewise
    return shown.replace("-", "−")


def _since(text: str) -> str:
    if not text:
        return "–"
    seconds = max(0.0, time.time() - float(text))
    if seconds < 5:  # noqa: PLR2004 - as in assets/draw_elements.js
        return "just now"
    if seconds < MINUTE:
        return f"{int(seconds)} s ago"
    if seconds < HOUR:
        return f"{int(seconds / MINUTE)} min ago"
    return f"{int(seconds / HOUR)} h ago" if seconds < TWO_DAYS else f"{int(seconds / 86_400)} days ago"


def _sparkline(values: Sequence[float | None]) -> str:
    finite = [value for value in values if value is not None]
    if not finite:
        return ""
    low, width = min(finite) / 2, max(len(values) - 1, 1)
    span = max(finite) / 2 - low or 1.0  # halves: the whole may be beyond the largest float
    parts, is_down = [], False
    for index, value in enumerate(values):
        if value is not None and math.isfinite(value):
            x, y = index / width * 98 + 1, 22 - (value / 2 - low) / span * 20
            parts.append(f"L{x:.1f} {y:.1f}" if is_down else f"M{x:.1f} {y:.1f}h0")  # a lone value is a dot
        is_down = value is not None
    return f'<svg viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true"><path d="{"".join(parts)}"/></svg>'
