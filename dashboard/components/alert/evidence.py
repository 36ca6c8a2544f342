"""Draws the evidence of an alert: the measured values, the threshold, and the false-alarm rate."""

import math
from collections.abc import Mapping
from typing import Final

from dash import html
from dash.development.base_component import Component

from dashboard.components.values import plain

__all__ = ["evidence_table"]

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
    return html.Div([_comparison(evidence), _formula(evidence), html.Dl(rows)], className="evidence")


def _comparison(evidence: Mapping[str, object]) -> Component | None:
    """Return the comparison of statistic and threshold, if the evidence holds both; NaN is not comparable."""
    statistic, threshold = evidence.get("statistic"), evidence.get("threshold")
    if not isinstance(statistic, int | float) or not isinstance(threshold, int | float):
        return None
    if math.isnan(statistic) or math.isnan(threshold):
        return None
    sign = ">" if statistic > threshold else "<" if statistic < threshold else "="
    return html.Div(
        [html.Strong(plain(statistic)), html.Span(f" {sign} "), html.Strong(plain(threshold))], className="comparison"
    )


def _formula(evidence: Mapping[str, object]) -> Component | None:
    """Return the rule in the notation of the detector."""
    return html.Code(str(evidence[FORMULA]), className="arithmetic") if FORMULA in evidence else None
