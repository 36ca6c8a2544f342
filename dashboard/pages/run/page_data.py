"""The data of the run page: read from the API at once, and turned into the parts of the page that are drawn again."""

import asyncio
from dataclasses import dataclass
from typing import Final

from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.types.alerts import ActionItem, AlertItem, JudgementItem, WarrantyItem
from dashboard.collector_client.types.rules import RunRuleItem
from dashboard.collector_client.types.runs import (
    ExpectedRangeItem,
    ForecastItem,
    MarkItem,
    PhaseItem,
    RunDetail,
    SeriesItem,
    shown_name,
)
from dashboard.components.alert.judgement import budget_lines, judgement_list
from dashboard.components.alert.listing import alert_list
from dashboard.components.alert.trainer_actions import action_list
from dashboard.components.rules.states import rule_states
from dashboard.components.run.header import SEEN_SHARE, run_header
from dashboard.figures.curves.panel_view import PanelView
from dashboard.figures.curves.running_sums import running_sum
from dashboard.figures.panels import PANELS, SUMMED_SIGNAL, SignalPanel, signal_names
from dashboard.figures.run import rows_of, run_figure
from dashboard.figures.signal import merge
from dashboard.pages.run.zoomed_series import read_zoomed

__all__ = ["RunPageData", "read_run"]

WHOLE: Final = PanelView()
MAX_POINTS: Final = 1500  # about one point per pixel; more points draw slower and look the same
ENDED: Final = frozenset({"finished", "stopped", "lost"})


@dataclass(frozen=True, slots=True)
class RunPageData:
    """All data of a run that the page shows."""

    run: RunDetail
    series: dict[str, SeriesItem]
    expected: dict[str, ExpectedRangeItem]
    phases: list[PhaseItem]
    alerts: list[AlertItem]
    actions: list[ActionItem]
    forecast: ForecastItem | None
    marks: list[MarkItem]
    rules: list[RunRuleItem]
    judgements: dict[str, JudgementItem]
    warranty: WarrantyItem | None
    view: PanelView
    means: dict[str, SeriesItem]

    @property
    def panels(self) -> tuple[SignalPanel, ...]:
        """The vital signs; without the running sum if steps were removed, because their values are missing in it."""
        return tuple(
            each for each in PANELS if not self.run.get("thinned") or SUMMED_SIGNAL not in signal_names((each,))
        )

    def header(self) -> list[Component]:
        """Draw the top of the page."""
        return run_header(self.run, self.phases, self.series, self.forecast)

    def aside(self) -> list[Component]:
        """Draw the column beside the figure: alerts, judgements, rules, actions, and the false-alarm budget."""
        return [
            *alert_list(self.alerts),
            *(judgement_list(self.alerts, self.judgements) if self.run["status"] in ENDED else []),
            *rule_states(self.rules),
            *action_list(self.run["id"], self.actions),
            *budget_lines(self.warranty),
        ]

    def figure(self) -> dict[str, object]:
        """Draw the vital signs."""
        return run_figure(
            series=self.series,
            phases=self.phases,
            alerts=self.alerts,
            marks=self.marks,
            panels=self.panels,
            expected=self.expected,
            smoothing=self.view.smoothing,
            means=self.means,
            last_step=self.run.get("last_step") or 0,
        )

    def style(self) -> dict[str, int]:
        """Return the height of the figure, in pixels."""
        return {"height": rows_of(self.panels, self.series, self.marks)[1]}

    def live(self) -> dict[str, object]:
        """Return the data with which the browser appends steps; it asks again when the points have doubled."""
        return {
            "page": "run",
            "title": shown_name(self.run),
            "run": self.run["id"],
            "attempt": self.run["attempt"],
            "max_points": MAX_POINTS * (1 if self.view.zoom is None else 3),
            "signals": len(self.run.get("signals") or []),
            "missing": [signal for signal in signal_names(self.panels) if signal not in self.series],
        }


async def read_run(api_url: str, run_id: str, *, points: int = MAX_POINTS, view: PanelView = WHOLE) -> RunPageData:
    """Read the data that the page shows.

    Args:
        api_url: The address of the collector's HTTP API.
        run_id: The run.
        points: The largest number of points of a line; the zoomed interval has twice as many in addition.
        view: Smoothing and zoom of the vital signs.
    """
    plain = [signal for signal in signal_names(PANELS) if signal != SUMMED_SIGNAL]
    async with ApiClient(api_url) as api:
        drawn, happened, judged = await asyncio.gather(
            asyncio.gather(
                read_zoomed(api, run_id, plain, view, points),
                api.runs.series(run_id, [SUMMED_SIGNAL, SEEN_SHARE]),
                api.runs.expected_ranges(run_id, plain),
                read_zoomed(api, run_id, plain, view, points, statistic="mean"),
            ),
            asyncio.gather(
                api.runs.phases(run_id),
                api.alerts.all(run_id),
                api.runs.actions(run_id),
                api.runs.forecast(run_id),
                api.runs.marks(run_id),
                api.rules.of_run(run_id),
            ),
            asyncio.gather(api.runs.judgements(run_id), api.runs.warranty(run_id)),
        )
        run = await api.runs.get(run_id)  # an earlier one would not know the newest steps of the series
    series, summed, expected, means = drawn
    more = {name: held if name == SEEN_SHARE else _sum_points(held, points, view) for name, held in summed.items()}
    return RunPageData(run, series | more, expected, *happened, *judged, view, means)


def _sum_points(series: SeriesItem, points: int, view: PanelView) -> SeriesItem:
    """Return the running sum of a signal, with more points in the zoomed interval."""
    whole, steps = running_sum(series, max_points=points), view.steps_in(series)
    return whole if steps is None else merge(whole, running_sum(series, max_points=2 * points, within=steps))
