"""Reads the chosen runs of a comparison, and draws them in the same charts."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.types.alerts import AlertItem
from dashboard.collector_client.types.runs import RunDetail, SeriesItem
from dashboard.components.choices import choosable
from dashboard.components.run.workspace import smoothing_of, zoom_of
from dashboard.figures.compared_runs import ALIGNMENTS, Compared, steps_within
from dashboard.figures.curves.newest_attempt import not_replaced
from dashboard.figures.overlay import overlay_figure
from dashboard.figures.signal import merge

__all__ = ["MAX_RUNS", "Comparison", "ComparisonChoice", "read_comparison"]

VITALS: Final = ("reward/mean", "likelihood/correct", "entropy/mean", "grad/norm")
MAX_RUNS: Final = 20
MAX_POINTS: Final = 800


@dataclass(frozen=True, slots=True)
class ComparisonChoice:
    """The values of the controls.

    Attributes:
        runs: The ids of the runs, at most `MAX_RUNS`.
        signals: The signals that are drawn.
        align: The quantity on the horizontal axis, a key of `ALIGNMENTS`.
        is_log: Whether the vertical axis is logarithmic.
        is_grouped: Whether seeds are drawn as median and range.
        smoothing: The weight of the moving average, from 0 to 0.99.
        zoom: The interval of the horizontal axis that is shown; None for all.
    """

    runs: Sequence[str]
    signals: Sequence[str]
    align: str
    is_log: bool
    is_grouped: bool
    smoothing: float
    zoom: tuple[float, float] | None

    @classmethod
    def of(  # noqa: PLR0917 - in the order of the controls
        cls,
        runs: Sequence[str],
        signals: Sequence[str] | None,
        align: str,
        scale: str,
        lines: str,
        smoothing: float | None,
        zoomed: object,
    ) -> "ComparisonChoice":
        """Return the choice that the controls make; a value that is not valid is replaced by the initial one."""
        ends = zoom_of(zoomed if isinstance(zoomed, str) else None)
        return cls(
            runs=runs[:MAX_RUNS],
            signals=signals or VITALS,
            align=align if align in ALIGNMENTS else "step",
            is_log=scale == "log",
            is_grouped=lines == "seeds",
            smoothing=smoothing_of(smoothing),
            zoom=None if ends is None else (ends[0], ends[1]),
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The present state of the runs, their alerts by the runs' ids, and the names of the signals that can be chosen."""

    choice: ComparisonChoice
    runs: Sequence[Compared]
    alerts: Mapping[str, Sequence[AlertItem]]
    choosable_signals: list[str]

    def figures(self) -> dict[str, dict[str, object]]:
        """Draw each chosen signal that a run has."""
        asked = self.choice
        return {
            signal: overlay_figure(
                signal,
                self.runs,
                align=asked.align,
                smoothing=asked.smoothing,
                is_log=asked.is_log,
                is_grouped=asked.is_grouped,
                zoom=asked.zoom,
            )
            for signal in asked.signals
            if any(signal in item.series for item in self.runs)
        }


async def read_comparison(api_url: str, choice: ComparisonChoice) -> Comparison:
    """Read the runs, with more points in the zoomed interval."""
    async with ApiClient(api_url) as api:
        read = await asyncio.gather(
            *(
                asyncio.gather(
                    api.runs.phases(run_id),
                    api.runs.series(run_id, choice.signals, max_points=MAX_POINTS, times=True),
                    _means(api, run_id, choice),
                    _began(api, run_id, choice),
                    api.alerts.all(run_id),
                )
                for run_id in choice.runs
            )
        )
        # The runs are read after their series: earlier ones would not know the newest steps.
        present = await asyncio.gather(*(api.runs.get(run_id) for run_id in choice.runs))
        runs = [
            Compared(run, phases, _newest(series, run), place, _newest(means, run), began)
            for place, (run, (phases, series, means, began, _)) in enumerate(zip(present, read, strict=True))
        ]
        if choice.zoom is not None:
            runs = list(await asyncio.gather(*(_finer(api, run, choice, choice.zoom) for run in runs)))
    names = sorted({name for run in present for name in run.get("signals") or []})
    return Comparison(
        choice, runs, {run["id"]: alerts for run, (*_, alerts) in zip(present, read, strict=True)}, choosable(names)
    )


async def _means(
    api: ApiClient, run_id: str, choice: ComparisonChoice, steps: tuple[int, int] | None = None
) -> dict[str, SeriesItem]:
    """Read the means of sections of the signals, if the lines are averages."""
    if not choice.smoothing and not choice.is_grouped:
        return {}
    return await api.runs.series(
        run_id, choice.signals, max_points=MAX_POINTS, steps=steps, times=True, statistic="mean"
    )


async def _began(api: ApiClient, run_id: str, choice: ComparisonChoice) -> float | None:
    """Read the time of the first step of a run, from which an axis of time counts for each of its signals."""
    return await api.runs.first_time(run_id) if choice.align == "time" else None


def _newest(series: Mapping[str, SeriesItem], run: RunDetail) -> dict[str, SeriesItem]:
    return {name: not_replaced(item, run.get("last_step")) for name, item in series.items()}


def _merged(coarse: Mapping[str, SeriesItem], fine: Mapping[str, SeriesItem]) -> dict[str, SeriesItem]:
    return {name: merge(item, fine[name]) if name in fine else item for name, item in coarse.items()}


async def _finer(api: ApiClient, compared: Compared, choice: ComparisonChoice, zoom: tuple[float, float]) -> Compared:
    """Return the run with more points in an interval of the axis."""
    steps = steps_within(compared, choice.align, zoom)
    if steps is None:
        return compared
    run_id = compared.run["id"]
    fine, means = await asyncio.gather(
        api.runs.series(run_id, choice.signals, max_points=MAX_POINTS, steps=steps, times=True),
        _means(api, run_id, choice, steps),
    )
    return replace(compared, series=_merged(compared.series, fine), means=_merged(compared.means, means))
