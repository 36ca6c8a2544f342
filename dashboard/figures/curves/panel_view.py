"""The view of the workspace's panels: smoothing, axes, outliers and zoom."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from dashboard.collector_client.types.runs import SeriesItem
from dashboard.figures.curves.token_axis import TokenAxis

__all__ = ["PanelView"]

Axis = Literal["step", "log", "time", "tokens"]
AXES: Final[dict[object, Axis]] = {"log": "log", "time": "time", "tokens": "tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelView:
    """How the panels are drawn.

    Args:
        smoothing: The decay per `smoothing_unit`, 0 to 0.999.
        axis: Steps, steps on a logarithmic axis, the wall time at which they were recorded, or the tokens until then.
        is_log: Whether the value axis is logarithmic.
        is_clipped: Whether the value axis leaves out outliers.
        zoom: The interval of the axis that is shown (steps, Unix seconds or tokens), or None for all of it.
    """

    smoothing: float = 0.0
    axis: Axis = "step"
    is_log: bool = False
    is_clipped: bool = False
    zoom: tuple[float, float] | None = None

    @classmethod
    def read(cls, asked: Mapping[str, object]) -> Self:
        """Read the browser's request; a value that cannot be used has no effect."""
        zoom, smoothing = asked.get("zoom"), asked.get("smoothing")
        ends = (
            [end for end in zoom if isinstance(end, int | float) and math.isfinite(end)]
            if isinstance(zoom, list)
            else []
        )
        return cls(
            smoothing=min(max(float(smoothing), 0.0), 0.999) if isinstance(smoothing, int | float) else 0.0,
            axis=AXES.get(asked.get("axis"), "step"),
            is_log=asked.get("scale") == "log",
            is_clipped=asked.get("outliers") == "hidden",
            zoom=(ends[0], ends[1]) if len(ends) == 2 and ends[0] < ends[1] else None,  # noqa: PLR2004 - two ends
        )

    def steps_in(self, series: SeriesItem, tokens: TokenAxis | None = None) -> tuple[int, int] | None:
        """Return the first and the last step of the zoom, by tokens, or by the times of a series."""
        if self.zoom is None or not series["steps"]:
            return None
        if self.axis in {"step", "log"}:
            return max(0, int(self.zoom[0])), max(0, int(self.zoom[1]) + 1)
        if tokens is not None:
            return int(tokens.step_at(self.zoom[0])), int(tokens.step_at(self.zoom[1])) + 1
        last = len(series["steps"]) - 1
        first, after = (bisect_left(series.get("times") or [], end) for end in self.zoom)
        return series["steps"][max(0, first - 1)], series["steps"][min(last, after)]
