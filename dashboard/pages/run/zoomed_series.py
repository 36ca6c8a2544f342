"""Reads signals for a chart: thinned over the whole run, and with more points in the zoomed interval."""

from collections.abc import Sequence

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.types.runs import SeriesItem, Statistic
from dashboard.figures.curves.panel_view import PanelView
from dashboard.figures.curves.token_axis import TokenAxis
from dashboard.figures.signal import merge

__all__ = ["read_zoomed"]


async def read_zoomed(  # noqa: PLR0917 - what is read, and how
    api: ApiClient,
    run_id: str,
    signals: Sequence[str],
    view: PanelView,
    max_points: int,
    tokens: TokenAxis | None = None,
    statistic: Statistic = "extremes",
) -> dict[str, SeriesItem]:
    """Read the signals that were observed, by name.

    Args:
        api: The collector.
        run_id: The run.
        signals: Names of signals.
        view: The axis and its zoomed interval.
        max_points: The largest number of points of each whole signal; the interval has up to twice as many.
        tokens: The axis by tokens, if the view has that axis.
        statistic: What is read of each section of a longer signal. Nothing is read for an average that is not drawn.
    """
    if statistic == "mean" and not view.smoothing:
        return {}
    is_timed = view.axis == "time"
    series = await api.runs.series(run_id, signals, max_points=max_points, times=is_timed, statistic=statistic)
    steps = next((held for item in series.values() if (held := view.steps_in(item, tokens))), None)
    if steps is None:
        return series
    fine = await api.runs.series(
        run_id, signals, max_points=2 * max_points, steps=steps, times=is_timed, statistic=statistic
    )
    return {name: merge(item, fine[name]) if name in fine else item for name, item in series.items()}
