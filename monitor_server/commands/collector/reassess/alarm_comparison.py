"""Compares the alarms of several versions of the detectors in judged runs: recorded, current, and saved ones."""

import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from monitor_server.durations import HOUR_SECONDS

__all__ = [
    "CURRENT",
    "RECORDED",
    "Alarms",
    "CriticalAlert",
    "JudgedRun",
    "Measures",
    "find_worse",
    "find_wrong_spans",
    "measure",
    "page_episodes",
]

RECORDED = "recorded"  # the alarms that the collector opened, with the versions that it had at the time
CURRENT = "current"  # the alarms of the version that runs this command

NIGHT_ENDS, NIGHT_BEGINS = 7, 22  # hours of the local day


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """The alarms of one version in one run: the steps at which pages open, and whether there was a warning."""

    pages: Sequence[int]
    is_warned: bool


@dataclass(frozen=True, slots=True)
class CriticalAlert:
    """A critical alert of a collector.

    Attributes:
        kind: Its kind.
        opened_step: The step at which it opened.
        severity_step: The step since which it is critical.
        end_step: The last step at which it held, or the one at which it was resolved; None while it is open.
        is_taken_back: Whether it ended because the run went back.
    """

    kind: str
    opened_step: int
    severity_step: int
    end_step: int | None
    is_taken_back: bool = False

    @classmethod
    def of_item(cls, item: Mapping[str, Any]) -> Self:
        """Build it from an alert of the API; one that was resolved after a rewind held up to the rewind."""
        resolved = item["resolved_step"]
        end = None if resolved is None else max(item["last_step"], resolved)
        return cls(item["kind"], item["opened_step"], item["severity_step"], end, item["is_taken_back"])

    @property
    def until(self) -> float:
        """The end as a number: infinite while it is open."""
        return math.inf if self.end_step is None else self.end_step


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run with alarms that a person has judged.

    Attributes:
        id: The id of the run.
        name: The name of the run.
        has_failed: Whether one of its alarms was right; otherwise all its judged alarms were wrong.
        failed_at: The step of the failure, if it was stated.
        alarms: The alarms by version: `RECORDED`, `CURRENT`, and each saved version that knows the run.
        wrong_spans: The first and the last step of each page that was judged wrong, of `find_wrong_spans`.
        times: The times of the steps, in seconds since the epoch; steps without a time are left out.
    """

    id: str
    name: str
    has_failed: bool
    failed_at: int | None
    alarms: Mapping[str, Alarms]
    wrong_spans: Sequence[tuple[float, float]] = ()
    times: Mapping[int, float] = field(default_factory=dict)

    def right_pages(self, version: str) -> list[int]:
        """Return the pages of a version that are right: those of a run that failed, but for the ones judged wrong."""
        return [page for page in self.alarms[version].pages if self.has_failed and not self._is_judged_wrong(page)]

    def wrong_pages(self, version: str) -> list[int]:
        """Return the pages of a version that are wrong."""
        return [page for page in self.alarms[version].pages if not self.has_failed or self._is_judged_wrong(page)]

    def _is_judged_wrong(self, page: int) -> bool:
        return any(first <= page <= last for first, last in self.wrong_spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The value of one version's alarms over the judged runs that it was replayed on; None is not observed.

    Attributes:
        runs: Number of these runs.
        pages: Number of pages.
        right_pages: Pages in runs that failed, without those that were judged wrong.
        lead: Median number of steps from the first right page to the failure, over failed runs whose failure has a
            step; a run without an earlier page counts as 0.
        nights: Nights (22:00 to 7:00, local time) with a wrong page.
        gpu_hours: From the first right page to the last step, over failed runs with one.
    """

    runs: int
    pages: int
    right_pages: int
    lead: float | None
    nights: int | None
    gpu_hours: float | None


def page_episodes(alerts: Iterable[CriticalAlert]) -> list[int]:
    """Return the steps at which pages open, from the critical alerts of a run in the order in which they opened.

    A critical alert that begins while another one holds belongs to the same page. After a rewind the steps begin again,
    and with them the pages: an alert that is found again is another page. An alert that is still open has held since
    before the rewinds after it, and its page with it.

    >>> first, second = CriticalAlert("a", 10, 10, 20), CriticalAlert("b", 15, 15, 30)
    >>> page_episodes([first, second, CriticalAlert("a", 40, 40, None)])
    [10, 40]
    """
    opened: list[int] = []
    is_open = False
    for passage in _passages(alerts):
        until = math.inf if is_open else -math.inf
        for alert in sorted(passage, key=lambda alert: alert.severity_step):
            if alert.severity_step > until:
                opened.append(alert.severity_step)
            until = max(until, alert.until)
        is_open = is_open or any(alert.end_step is None for alert in passage)
    return opened


def _passages(alerts: Iterable[CriticalAlert]) -> list[list[CriticalAlert]]:
    """Divide alerts where the run went back between two of them.

    It went back if the steps of the alerts do, if an alert of the same kind held at the step, or if an alert lasts
    longer than one that a rewind has ended. Two rewinds without any of these signs are one passage.
    """
    passages: list[list[CriticalAlert]] = []
    for alert in alerts:
        passage = passages[-1] if passages else []
        goes_back = any(
            alert.opened_step < each.opened_step
            or (alert.kind == each.kind and alert.opened_step <= each.until)
            or (each.is_taken_back and not alert.is_taken_back and alert.until > each.until)
            for each in passage
        )
        if goes_back or not passage:
            passages.append([alert])
        else:
            passage.append(alert)
    return passages


def find_wrong_spans(alerts: Iterable[CriticalAlert], is_right: Iterable[bool | None]) -> list[tuple[float, float]]:
    """Return the spans of the pages that were judged wrong.

    A page that was judged wrong by one of its alerts and right by another one is right.

    Args:
        alerts: The critical alerts of a run.
        is_right: For each of them whether it was judged right; None if it was not judged.

    >>> early, late, joined = (CriticalAlert("a", at, at, at + 5) for at in (10, 40, 43))
    >>> find_wrong_spans([early, late, joined], [False, False, True])
    [(10, 15)]
    """
    judged = [((alert.severity_step, alert.until), right) for alert, right in zip(alerts, is_right, strict=True)]
    right_spans = [span for span, right in judged if right]
    return [
        (first, last)
        for (first, last), right in judged
        if right is False and not any(begin <= last and first <= end for begin, end in right_spans)
    ]


def measure(runs: Sequence[JudgedRun], version: str, *, gpus: float) -> Measures:
    """Compute the measures of one version.

    Args:
        runs: The judged runs.
        version: The version; runs without alarms of it are left out.
        gpus: GPUs of a run.
    """
    found = [run for run in runs if version in run.alarms]
    failing = [(run, run.right_pages(version)) for run in found if run.has_failed]
    leads = [max(0, run.failed_at - pages[0]) if pages else 0 for run, pages in failing if run.failed_at is not None]
    spans = [max(run.times.values()) - run.times[pages[0]] for run, pages in failing if pages and pages[0] in run.times]
    has_times = any(run.times for run in found)
    wrong = [run.times.get(page) for run in found for page in run.wrong_pages(version)]
    return Measures(
        runs=len(found),
        pages=sum(len(run.alarms[version].pages) for run in found),
        right_pages=sum(len(pages) for _, pages in failing),
        lead=statistics.median(leads) if leads else None,
        nights=len({_night(at) for at in wrong if at is not None} - {None}) if has_times else None,
        gpu_hours=sum(spans) * gpus / HOUR_SECONDS if has_times else None,
    )


def find_worse(runs: Sequence[JudgedRun], version: str = RECORDED) -> list[str]:
    """Return one line for each run in which the current version is worse than another one, and in what.

    It is worse if a right page is missing or later, if a right warning is missing, or if there are more wrong pages, or
    a wrong warning where there was none.
    """
    lines = []
    for run in runs:
        if version not in run.alarms:
            continue
        was_warned, is_warned = run.alarms[version].is_warned, run.alarms[CURRENT].is_warned
        before, now = run.right_pages(version), run.right_pages(CURRENT)
        wrong_before, wrong_now = len(run.wrong_pages(version)), len(run.wrong_pages(CURRENT))
        if before and not now:
            lines.append(f"{run.name}: no page, where there was a right one at step {before[0]}")
        elif before and now[0] > before[0]:
            lines.append(f"{run.name}: paged at step {now[0]}, where it was paged at step {before[0]}")
        elif run.has_failed and was_warned and not is_warned:
            lines.append(f"{run.name}: no warning, where there was a right one")
        elif wrong_now > wrong_before:
            lines.append(f"{run.name}: {wrong_now} wrong pages, where there were {wrong_before}")
        elif not run.has_failed and is_warned and not was_warned:
            lines.append(f"{run.name}: a wrong warning, where there was none")
    return lines


def _night(at: float) -> tuple[int, int] | None:
    """Return the night of a time, named by the day on which it begins; None for a time by day."""
    local = time.localtime(at)
    if NIGHT_ENDS <= local.tm_hour < NIGHT_BEGINS:
        return None
    evening = local if local.tm_hour >= NIGHT_BEGINS else time.localtime(at - NIGHT_ENDS * HOUR_SECONDS)
    return evening.tm_year, evening.tm_yday
