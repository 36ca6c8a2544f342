"""Writes components as HTML: the first view of a page, and parts that would be too many components for Dash.

Only visible parts are written: elements, links and the drawn values. Controls of Dash, ids and events are left out.
"""

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from dash.development.base_component import Component

__all__ = ["html_text"]

TAGS: Final = {("dash_core_components", "Link"): "a"}
LEFT_OUT: Final = frozenset({"id", "key", "children", "n_clicks", "style", "className", "refresh", "hidden", "open"})
WITHOUT_END: Final = frozenset({"br", "hr", "img", "input"})
MINUTE, HOUR, TWO_DAYS = 60, 3600, 172_800  # seconds


def html_text(content: object) -> str:
    """Return the HTML of a component, of text, or of a list of both."""
    if content is None:
        return ""
    if isinstance(content, str | int | float):
        return escape(str(content))
    if isinstance(content, list | tuple):
        return "".join(html_text(part) for part in content)
    if not isinstance(content, Component):
        raise TypeError(f"content must be a component, text, a number or a list, got {type(content).__name__}")
    described = content.to_plotly_json()
    kind = (described["namespace"], described["type"])
    if kind[0] != "dash_html_components" and kind not in TAGS:
        return ""
    tag, props = TAGS.get(kind) or kind[1].lower(), described["props"]
    text = f"<{tag}{_attributes(props)}>"
    return text if tag in WITHOUT_END else f"{text}{_draw(props) or html_text(props.get('children'))}</{tag}>"


def _attributes(props: Mapping[str, object]) -> str:
    named = {"class": props.get("className"), "style": _style(props.get("style"))}
    named |= {name: value for name, value in props.items() if name not in LEFT_OUT}
    flags = "".join(f" {name}" for name in ("hidden", "open") if props.get(name))
    return flags + "".join(
        f' {name}="{escape(str(value))}"' for name, value in named.items() if value is not None and value != ""
    )


def _style(style: object) -> str:
    if not isinstance(style, Mapping):
        return ""
    return ";".join(f"{re.sub('[A-Z]', lambda at: f'-{at[0].lower()}', name)}:{value}" for name, value in style.items())


def _draw(props: Mapping[str, object]) -> str:
    """Return the content that assets/draw_elements.js would draw into an element."""
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
