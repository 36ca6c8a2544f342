"""The view of the workspace's panels: smoothing, axes, outliers and zoom."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

from dashboard.collector_client.types.runs import SeriesItem
from dashboard.figures.curves.token_axis import TokenAxis

__all__ = ["PanelView", "steps_around"]

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
        steps, times = series["steps"], series.get("times") or []
        around = steps_around(steps, times, self.zoom)
        if around is None:  # the interval lies between two points
            first, after = (bisect_left(times, end) for end in self.zoom)
            around = steps[max(0, first - 1)], steps[min(len(steps) - 1, after)]
        return around


def steps_around(steps: Sequence[int], places: Sequence[float], zoom: tuple[float, float]) -> tuple[int, int] | None:
    """Return the steps beside the ends of an interval, because the steps next to its ends may have been thinned out.

    Args:
        steps: The steps, ascending, shape [n].
        places: Their positions on the axis, shape [n] in any order: the clock of a trainer may have been set back.
        zoom: The ends of the interval on the axis.

    Returns:
        None if no step lies in the interval.
    """
    inside = [at for at, (_, place) in enumerate(zip(steps, places, strict=False)) if zoom[0] <= place <= zoom[1]]
    return (steps[max(0, inside[0] - 1)], steps[min(len(steps) - 1, inside[-1] + 1)]) if inside else None
