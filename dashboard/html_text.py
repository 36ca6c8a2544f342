"""Writes components as HTML: the first view of a page, and parts that would be too many components for Dash.

Only visible parts are written: elements, links and the drawn values. Controls of Dash, ids and events are left out.
"""

import re
from collections.abc import Mapping
from html import escape
from typing import Final

from dash.development.base_component import Component

from dashboard.drawn_values import drawn_value

__all__ = ["html_text"]

TAGS: Final = {("dash_core_components", "Link"): "a"}
LEFT_OUT: Final = frozenset({"id", "key", "children", "n_clicks", "style", "className", "refresh", "hidden", "open"})
WITHOUT_END: Final = frozenset({"br", "hr", "img", "input"})


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
    return text if tag in WITHOUT_END else f"{text}{drawn_value(props) or html_text(props.get('children'))}</{tag}>"


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
