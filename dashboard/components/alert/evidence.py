"""An alert's arithmetic, written out: what was measured, against what, with which false-alarm rate."""

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
    """Give every entry of the evidence, the known ones first and in the order in which one reasons."""
    known = [name for name in ORDER if name in evidence]
    rest = [name for name in evidence if name not in ORDER and name != FORMULA]
    rows = [
        html.Div([html.Dt(NAMES.get(name, name.replace("_", " "))), html.Dd(plain(evidence[name]))])
        for name in known + rest
    ]
    return html.Dl([_comparison(evidence), _formula(evidence), *rows], className="evidence")


def plain(value: object) -> str:
    """Write a JSON value for readers: short numbers, ranges of two, lists with commas, nested names with values."""
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{str(name).replace('_', ' ')} {plain(held)}" for name, held in value.items())
    if isinstance(value, list):
        return _range(value) or ", ".join(plain(item) for item in value)
    return _number(value) if isinstance(value, int | float) else str(value)


def _range(values: list[object]) -> str | None:
    """Write two steps as a range, one if they are the same; None for any other list."""
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
    """Give the sentence at the heart of it, where statistic and threshold are both stated."""
    statistic, threshold = evidence.get("statistic"), evidence.get("threshold")
    if not isinstance(statistic, int | float) or not isinstance(threshold, int | float):
        return None
    sign = ">" if statistic > threshold else "<" if statistic < threshold else "="
    return html.Div(
        [html.Strong(plain(statistic)), html.Span(f" {sign} "), html.Strong(plain(threshold))], className="comparison"
    )


def _formula(evidence: Mapping[str, object]) -> Component | None:
    """Give the rule in the detector's own notation."""
    return html.Code(str(evidence[FORMULA]), className="arithmetic") if FORMULA in evidence else None
