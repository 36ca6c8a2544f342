"""The first view of a page, which the browser shows until it has loaded Dash and drawn the page itself.

The server writes it into the document, from the same answers of the API and with the same components. It is inside a
closed shadow root, so it shares no id with the page that replaces it (assets/first_view.js).
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from dash import html

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError
from dashboard.collector_client.types.runs import RunItem
from dashboard.components.fleet.filters import FleetCounts, fleet_summary
from dashboard.components.page_frame import shell
from dashboard.components.run.labels import run_labels
from dashboard.first_view.fleet_rows import ROWS, first_rows
from dashboard.first_view.static_figure import static_figure
from dashboard.html_text import html_text
from dashboard.pages.fleet.page import read_counts
from dashboard.pages.run.page_data import RunPageData, read_run

__all__ = ["FirstView"]

RUN: Final = re.compile(r"/runs/([^/]+)/?")
POINTS: Final = 600  # of a line; the view is shown for a second or two
LONGEST_SECONDS: Final = 3.0  # a page of a slower collector has no first view
HERE: Final = "<!-- page -->"


class FirstView:
    """Returns the first view of a page, for `dashboard.page_delivery.first_answer`.

    Args:
        api_url: Where the dashboard reaches the collector's HTTP API.
        style: The address of the style sheet.
    """

    def __init__(self, api_url: str, style: str) -> None:
        self._api_url = api_url
        self._before, self._after = html_text(shell(html.Main(HERE))).split(html_text(HERE))
        self._style = f'<link rel="stylesheet" href="{style}">'

    async def __call__(self, path: str, query: str) -> str:
        """Return the view as HTML; empty if the page has none, or the collector does not answer in time.

        A fleet or run whose address sets filters or a zoom has no first view, because only the browser reads these.
        """
        run = RUN.fullmatch(path)
        if query or (run is None and path != "/"):
            return ""
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                page = await (self._run(run[1]) if run else self._fleet())
        except (ApiError, TimeoutError):
            return ""
        if not page:
            return ""
        inner = f"{self._style}{self._before}{page}{self._after}"
        return f'<div id="first-view"><template shadowrootmode="closed">{inner}</template></div>'

    async def _run(self, run_id: str) -> str:
        read = await read_run(self._api_url, run_id, points=POINTS)
        if not read.series:
            return ""
        return await asyncio.to_thread(_draw_run, read)

    async def _fleet(self) -> str:
        async with ApiClient(self._api_url) as api:
            counts, (urgent, _) = await asyncio.gather(
                read_counts(self._api_url), api.runs.part({"archived": "false"}, sort="urgency", limit=ROWS)
            )
        return await asyncio.to_thread(_draw_fleet, counts, urgent) if urgent else ""


# Both are called in a thread, because the event loop of a collector answers trainers too.
def _draw_run(read: RunPageData) -> str:
    header = html_text(html.Section(read.header(), className="card run-header"))
    aside = html_text(html.Aside(read.aside(), className="card run-alerts"))
    chart = f'<section class="card run-figure">{static_figure(read.figure())}</section>'
    return f'<div class="run-page">{header}{html_text(run_labels(read.run))}{chart}{aside}</div>'


def _draw_fleet(counts: FleetCounts, urgent: Sequence[RunItem]) -> str:
    filters = html.Div(className="filters first-filters")  # an empty place for the filters
    return html_text([filters, html.Div(fleet_summary(counts)), first_rows(urgent)])
