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
NAMES: Final = {"agreeing": "also agrees", "missing": "not observed", "onset": "began between steps"}


def evidence_table(evidence: Mapping[str, object]) -> Component:
    """Give every entry of the evidence, the known ones first and in the order in which one reasons."""
    known = [name for name in ORDER if name in evidence]
    rest = [name for name in evidence if name not in ORDER]
    rows = [
        html.Div([html.Dt(NAMES.get(name, name.replace("_", " "))), html.Dd(plain(evidence[name]))])
        for name in known + rest
    ]
    return html.Dl([_comparison(evidence), *rows], className="evidence")


def plain(value: object) -> str:
    """Write a JSON value for readers: short numbers, ranges of two, lists with commas, nested names with values."""
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else _short(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{str(name).replace('_', ' ')} {plain(held)}" for name, held in value.items())
    if isinstance(value, list):
        is_range = len(value) == len(("from", "to")) and all(isinstance(item, int) for item in value)
        return f"{value[0]} to {value[1]}" if is_range else ", ".join(plain(item) for item in value)
    return str(value)


def _short(value: float) -> str:
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
