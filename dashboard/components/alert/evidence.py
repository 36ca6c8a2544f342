"""Draws the evidence of an alert: what was measured, the threshold, and the false-alarm rate."""

import math
from collections.abc import Mapping
from typing import Final

from dash import html
from dash.development.base_component import Component

__all__ = ["evidence_table", "plain"]

ORDER: Final = (
    "signal",
    "baseline",
    "window",
    "statistic",
    "threshold",
    "onset",
    "agreeing",
    "missing",
    "calibration",
)
FORMULA: Final = "arithmetic"
NAMES: Final = {"agreeing": "also agrees", "missing": "not observed", "onset": "began at step"}


def evidence_table(evidence: Mapping[str, object]) -> Component:
    """Return every entry of the evidence; the known entries come first, in the order of the argument."""
    known = [name for name in ORDER if name in evidence]
    rest = [name for name in evidence if name not in ORDER and name != FORMULA]
    rows = [
        html.Div([html.Dt(NAMES.get(name, name.replace("_", " "))), html.Dd(plain(evidence[name]))])
        for name in known + rest
    ]
    return html.Dl([_comparison(evidence), _formula(evidence), *rows], className="evidence")


def plain(value: object) -> str:
    """Format a JSON value for readers: short numbers, pairs of steps as ranges, lists with commas."""
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{str(name).replace('_', ' ')} {plain(held)}" for name, held in value.items())
    if isinstance(value, list):
        return _range(value) or ", ".join(plain(item) for item in value)
    return _number(value) if isinstance(value, int | float) else str(value)


def _range(values: list[object]) -> str | None:
    """Format two steps as a range, or as one step if they are equal; return None for any other list."""
    match values:
        case [int(first), int(last)]:
            return str(first) if first == last else f"{first} to {last}"
    return None


def _number(value: float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    return f"{value:.4g}".replace("-", "−")


def _comparison(evidence: Mapping[str, object]) -> Component | None:
    """Return the comparison of statistic and threshold, if the evidence holds both."""
    statistic, threshold = evidence.get("statistic"), evidence.get("threshold")
    if not isinstance(statistic, int | float) or not isinstance(threshold, int | float):
        return None
    sign = ">" if statistic > threshold else "<" if statistic < threshold else "="
    return html.Div(
        [html.Strong(plain(statistic)), html.Span(f" {sign} "), html.Strong(plain(threshold))], className="comparison"
    )


def _formula(evidence: Mapping[str, object]) -> Component | None:
    """Return the rule in the notation of the detector."""
    return html.Code(str(evidence[FORMULA]), className="arithmetic") if FORMULA in evidence else None
