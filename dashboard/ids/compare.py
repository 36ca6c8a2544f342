"""The comparison of runs."""

from typing import Final

RUNS: Final = "compare-runs"
SIGNALS: Final = "compare-signals"
ALIGN: Final = "compare-align"
SCALE: Final = "compare-scale"
EXAMPLE: Final = "compare-example"
EXAMPLE_STATE: Final = "compare-example-state"
GROUP: Final = "compare-group"
SMOOTHING: Final = "compare-smoothing"
BODY: Final = "compare-body"
