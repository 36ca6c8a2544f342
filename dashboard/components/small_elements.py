"""Small elements that every page uses: badges, numbers, times, sparklines and choices.

A number, a time or a sparkline is an empty element whose ``data-`` attribute holds the value. The script
assets/draw_elements.js draws it, so that a value from the server and a value from the stream look the same.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

__all__ = [
    "address_writer", "badge", "number", "number_input", "save_buttons", "segmented_choice", "since", "sparkline",
    "spell",
]  # fmt: skip


def badge(family: str, name: str, *, text: str | None = None) -> Component:
    """Return a small label with the colour of a name in its family ("phase", "status", "severity")."""
    return html.Span(text or name, className=f"badge {family}", **{f"data-{family}": name})


def number(value: float | None, *, signal: str = "") -> Component:
    """Return a number that the stream may replace; None is shown as a dash."""
    names = {"data-signal": signal} if signal else {}
    return html.Span(className="number", **{"data-number": "" if value is None else spell(value)}, **names)


def number_input(name: str | dict[str, Any], **options: Any) -> dcc.Input:  # noqa: ANN401 - of Dash's input
    """Return the control of a number field; `values.read_number` or `values.read_step` reads its text.

    It is a text field. A number field of Dash returns nothing for a text that is no number, and does not return a
    number that is typed again after a callback has set another. Without options the keyboard is the usual one, because
    the keypads of some phones lack the minus and the point.
    """
    return dcc.Input(**({"id": name, "maxLength": 40, "autoComplete": "off"} | options))


def since(epoch: float | None) -> Component:
    """Return the time since a moment, updated every second; None is shown as a dash."""
    return html.Time(className="since", **{"data-epoch": "" if epoch is None else f"{epoch:.3f}"})


def sparkline(values: Sequence[float], *, signal: str) -> Component:
    """Return a line of the last values without axes; it has a gap where a value is not finite."""
    spelled = json.dumps([value if math.isfinite(value) else None for value in values])
    return html.Span(className="sparkline", title=signal, **{"data-sparkline": spelled, "data-signal": signal})


def save_buttons(*formats: str, chart: str) -> list[Component]:
    """Return a button for each format (png, svg, csv) that saves the chart; an element around it has ``data-chart``."""
    return [
        html.Button(name.upper(), title=f"Save {chart} as {name.upper()}", className="save", **{"data-save": name})
        for name in formats
    ]


def spell(value: float) -> str:
    """Format a number in full precision, a non-finite number by its name."""
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def address_writer(usual: Mapping[str, object]) -> str:
    """Return the clientside callback that writes controls into the address; see assets/address.js.

    Args:
        usual: By the name of each control in the address, in the order of the callback's inputs, the value that is left
            out.
    """
    return f"(...values) => window.rlvitals.rememberQuery({json.dumps(usual)}, values)"


def segmented_choice(name: str, label: str, options: Mapping[str, str], asked: str | None) -> Component:
    """Return a choice of one among a few options side by side; the first one if the asked one is none of them."""
    value = asked if asked in options else next(iter(options))
    radio = dcc.RadioItems(id=name, options=dict(options), value=value, inline=True, className="segments")
    return html.Div(html.Fieldset([html.Legend(label), radio]), className="control")
