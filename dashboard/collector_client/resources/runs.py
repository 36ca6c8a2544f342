"""Runs, what is shown of each, and what its trainer reported."""

import asyncio
from collections.abc import Sequence
from typing import Final, cast
from urllib.parse import quote

from dashboard.collector_client.answers import read_as
from dashboard.collector_client.errors import NotFoundError
from dashboard.collector_client.http_requests import MAX_ITEMS, PAGE_ITEMS, Query, Requests, item_path
from dashboard.collector_client.types.alerts import ActionItem, JudgementItem, WarrantyItem
from dashboard.collector_client.types.runs import (
    ExpectedRangeItem,
    ForecastItem,
    MarkItem,
    PhaseItem,
    RunDetail,
    RunGroupItem,
    RunItem,
    RunRow,
    SeriesItem,
    Statistic,
)

__all__ = ["Runs"]

RUN_PAGE_ITEMS: Final = 1000  # the most that the collector returns at once
MAX_GROUPS: Final = 20_000  # nobody scrolls through more
ALL_POINTS: Final = 1_000_000  # the most that the collector returns of one signal


class Runs:
    """Runs, what is shown of each, and what its trainer reported.

    Args:
        requests: What sends the requests to the collector.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def matching(self, text: str = "", *, limit: int) -> list[RunItem]:
        """Read the newest runs that have each word of a text in their name, title, project, tags, phase or status.

        Args:
            text: The words, ten at most; every run matches a text without words.
            limit: The largest number of runs, 1,000 at most.
        """
        query: Query = {"limit": limit}
        if text:
            query["text"] = text
        answer = await self._requests.get("/runs", query)
        return read_as(list[RunItem], answer["items"])

    async def some(self, run_ids: Sequence[str]) -> list[RunDetail]:
        """Read runs by their ids, in this order; those that are not stored are left out."""
        read = await asyncio.gather(*(self.get(run_id) for run_id in run_ids), return_exceptions=True)
        for found in read:
            if isinstance(found, BaseException) and not isinstance(found, NotFoundError):
                raise found
        return [found for found in read if not isinstance(found, BaseException)]

    async def part(
        self, wanted: Query, *, sort: str, offset: int = 0, limit: int = 100, group_by: str = ""
    ) -> tuple[list[RunItem], int]:
        """Read some runs of a list in an order of the collector, and how many runs the whole list has.

        Args:
            wanted: The filters, by the names of the API's parameters.
            sort: The columns to sort by, as the API states them.
            offset: How many of the first runs are left out.
            limit: The most runs, 1,000 at most.
            group_by: What the runs of a group have in common, if they stand together.
        """
        asked: Query = {**wanted, "sort": sort, "offset": offset, "limit": limit}
        answer = await self._requests.get("/runs", asked | ({"group_by": group_by} if group_by else {}))
        return read_as(list[RunItem], answer["items"]), cast("int", answer["total"])

    async def every(self, wanted: Query, *, most: int) -> list[RunItem]:
        """Read each run that matches once, whatever changes meanwhile: the newest first, ``most`` at most."""
        query: Query = {**wanted, "limit": RUN_PAGE_ITEMS}
        return read_as(list[RunItem], await self._requests.items("/runs", query, most=most))

    async def rows(
        self, wanted: Query, *, sort: str, group_by: str, closed: Sequence[str], offset: int, limit: int
    ) -> tuple[list[RunRow], int, int]:
        """Read rows of a table of runs in groups, how many it has, and how many runs match.

        Args:
            wanted: The filters, by the names of the API's parameters.
            sort: The columns to sort the runs of a group by, as the API states them.
            group_by: What the runs of a group have in common.
            closed: The names of the groups whose runs have no rows; empty for the runs without a value.
            offset: How many of the first rows are left out.
            limit: The most rows, 1,000 at most.
        """
        asked: Query = {"sort": sort, "group_by": group_by, "closed": list(closed), "offset": offset, "limit": limit}
        answer = await self._requests.get("/runs/rows", wanted | asked)
        rows = read_as(list[RunRow], answer["items"])
        return rows, cast("int", answer["rows"]), cast("int", answer["total"])

    async def groups(self, by: str, wanted: Query, *, most: int = MAX_GROUPS) -> list[RunGroupItem]:
        """Count runs by what they have in common, the group of the most urgent run first.

        Args:
            by: What the runs of a group have in common.
            wanted: The filters, by the names of the API's parameters.
            most: The most groups. The collector counts all of them for each thousand that it returns.
        """
        query: Query = {**wanted, "by": by, "limit": RUN_PAGE_ITEMS}
        return cast("list[RunGroupItem]", await self._requests.items("/runs/groups", query, most=most))

    async def get(self, run_id: str) -> RunDetail:
        """Read one run, with its config and the names of its signals."""
        answer = await self._requests.get(item_path("runs", run_id), {})
        _ = answer["id"]  # an object without it is no run, and the error is raised where a page expects it
        return cast("RunDetail", read_as(RunItem, answer))  # the configuration stays as the trainer has sent it

    async def series(
        self,
        run_id: str,
        signals: Sequence[str],
        *,
        max_points: int = ALL_POINTS,
        steps: tuple[int, int] | None = None,
        times: bool = False,
        statistic: Statistic = "extremes",
    ) -> dict[str, SeriesItem]:
        """Read the signals that were observed, by name.

        Args:
            run_id: The run.
            signals: Names of signals.
            max_points: At most this many points of each.
            steps: The first and the last step, or None for all.
            times: Whether to read the time of each step as well.
            statistic: What is read of each section of a longer signal. Whoever averages reads the means: an average of
                extremes is no average of the signal.
        """
        if not signals:
            return {}
        query: Query = {"signals": list(signals), "max_points": max_points}
        if steps is not None:
            query |= {"from_step": steps[0], "to_step": steps[1]}
        if times:
            query["times"] = "true"
        if statistic != "extremes":
            query["statistic"] = statistic
        items = read_as(list[SeriesItem], await self._requests.items(item_path("runs", run_id, "series"), query))
        series: dict[str, SeriesItem] = {}
        for item in items:
            if not item["steps"]:
                continue
            if (begun := series.setdefault(item["signal"], item)) is not item:  # the rest of a long signal
                begun["steps"] += item["steps"]
                begun["values"] += item["values"]
                if times:
                    begun["times"] = [*(begun["times"] or ()), *(item["times"] or ())]
                if counts := item.get("counts"):
                    begun["counts"] = [*(begun["counts"] or ()), *counts]
        return series

    async def first_time(self, run_id: str) -> float | None:
        """Read the time at which the trainer recorded the first step of a run; None before that step."""
        answer = await self._requests.get(item_path("runs", run_id, "steps"), {"limit": 1})
        items = cast("list[dict[str, float]]", answer["items"])
        return items[0]["time"] if items else None

    async def phases(self, run_id: str) -> list[PhaseItem]:
        """Read a run's newest `MAX_ITEMS` phases, oldest first."""
        answer = await self._requests.get(item_path("runs", run_id, "phases"), {})
        return cast("list[PhaseItem]", answer["items"])[-MAX_ITEMS:]

    async def marks(self, run_id: str) -> list[MarkItem]:
        """Read what happened to a run at a step, in the order of steps."""
        return cast("list[MarkItem]", await self._requests.items(item_path("runs", run_id, "marks"), {}))

    async def expected_ranges(self, run_id: str, signals: Sequence[str]) -> dict[str, ExpectedRangeItem]:
        """Read the ranges of the values of healthy runs, by signal; signals without a known range are left out."""
        query: Query = {"signals": list(signals)}
        answer = await self._requests.get(item_path("runs", run_id, "expected-ranges"), query)
        return {item["signal"]: item for item in read_as(list[ExpectedRangeItem], answer["items"])}

    async def forecast(self, run_id: str) -> ForecastItem | None:
        """Read the probability of a collapse of a run; None before the first step and after a collapse."""
        answer = await self._requests.ask("GET", item_path("runs", run_id, "forecast"), is_nullable=True)
        return cast("ForecastItem", answer) if answer else None

    async def warranty(self, run_id: str) -> WarrantyItem | None:
        """Read the false-alarm budget of a run; None if there is no warranty."""
        answer = await self._requests.ask("GET", item_path("runs", run_id, "warranty"), is_nullable=True)
        return read_as(WarrantyItem, answer) if answer else None

    async def actions(self, run_id: str) -> list[ActionItem]:
        """Read the actions that a run's trainer reported, newest first, `MAX_ITEMS` at most."""
        items = await self._requests.items(item_path("runs", run_id, "actions"), {"limit": PAGE_ITEMS})
        # An older collector sends no forks.
        return [{"forks": [], **action} for action in read_as(list[ActionItem], items)]

    async def judgements(self, run_id: str) -> dict[str, JudgementItem]:
        """Read the judgements of a run's alarms, by alert; alarms that nobody has judged are left out."""
        items = await self._requests.items(item_path("runs", run_id, "judgements"), {})
        return {item["alert_id"]: item for item in cast("list[JudgementItem]", items)}

    async def label(self, run_id: str, **labels: object) -> None:
        """Change title, tags, notes or whether a run is archived."""
        await self._requests.ask("PATCH", item_path("runs", run_id), json=labels)

    async def delete(self, run_id: str, *, is_forced: bool = False) -> None:
        """Delete a run; while its trainer sends, or a rule compares with it, only with ``is_forced``."""
        await self._requests.ask("DELETE", item_path("runs", run_id), params={"force": str(is_forced).lower()})

    async def delete_project(self, name: str) -> None:
        """Delete a project with its runs, silences and views, unless a trainer of one of its runs still sends."""
        written = quote(name, safe="").replace(".", "%2E")  # the client would take "." and ".." for parts of the path
        await self._requests.ask("DELETE", f"/projects/{written}")
