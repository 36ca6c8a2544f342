"""The small pieces every page uses: badges, numbers, times and sparklines.

A number, a time or a sparkline is an empty element whose ``data-`` attribute holds the value; assets/drawn.js draws
it, so that what the server stated and what the stream pushed look the same.
"""

import json
import math
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

__all__ = ["badge", "number", "since", "sparkline", "spell"]


def badge(family: str, name: str, *, text: str | None = None) -> Component:
    """Give a small label tinted by its family ("phase", "status", "severity") and name."""
    return html.Span(text or name, className=f"badge {family}", **{f"data-{family}": name})


def number(value: float | None, *, signal: str = "") -> Component:
    """Give a number that the stream may replace; None shows as a dash."""
    names = {"data-signal": signal} if signal else {}
    return html.Span(className="number", **{"data-number": "" if value is None else spell(value)}, **names)


def since(epoch: float | None) -> Component:
    """Give how long ago something was, ticking; None shows as a dash."""
    return html.Time(className="since", **{"data-epoch": "" if epoch is None else f"{epoch:.3f}"})


def sparkline(values: Sequence[float], *, signal: str) -> Component:
    """Give a line of the last values without axes; a gap where a value is not finite."""
    spelled = json.dumps([value if math.isfinite(value) else None for value in values])
    return html.Span(className="sparkline", title=signal, **{"data-sparkline": spelled, "data-signal": signal})


def spell(value: float) -> str:
    """Write a number in full precision, non-finite ones by name."""
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
