"""The comparison of runs."""

from typing import Any, Final

RUNS: Final = "compare-runs"
SIGNALS: Final = "compare-signals"
ALIGN: Final = "compare-align"
SCALE: Final = "compare-scale"
EXAMPLE: Final = "compare-example"
EXAMPLE_STATE: Final = "compare-example-state"
GROUP: Final = "compare-group"
SMOOTHING: Final = "compare-smoothing"
BODY: Final = "compare-body"
REFRESH: Final = "compare-refresh"  # changes when the compared runs have changed
FOLLOWED: Final = "compare-followed"  # what a refresh has read, and for which values of the controls
LEGEND: Final = "compare-legend"
OUTCOMES: Final = "compare-outcomes"
ZOOM: Final = "compare-zoom"  # the interval of the axis that is shown, two numbers with a comma, or empty


def chart(signal: Any) -> dict[str, Any]:  # noqa: ANN401 - a name, or Dash's `ALL`
    """Return the id of the chart of a signal."""
    return {"type": "compare-chart", "signal": signal}
