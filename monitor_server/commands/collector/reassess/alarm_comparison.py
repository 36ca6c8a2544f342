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
        """Build it from an alert of the API; one that a rewind has ended held up to the rewind."""
        end = item["last_step"] if item["is_taken_back"] else item["resolved_step"]
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
        times: The times of the steps, in seconds since the epoch; steps without a time are left out.
    """

    id: str
    name: str
    has_failed: bool
    failed_at: int | None
    alarms: Mapping[str, Alarms]
    times: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The value of one version's alarms over the judged runs that it was replayed on; None is not observed.

    Attributes:
        runs: Number of these runs.
        pages: Number of pages.
        right_pages: Pages in runs that failed.
        lead: Median number of steps from the first page to the failure, over failed runs whose failure has a step; a
            run without an earlier page counts as 0.
        nights: Nights (22:00 to 7:00, local time) with a page in a run that did not fail.
        gpu_hours: From the first page to the last step, over failed runs with a page.
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
    and with them the pages: what was found before holds no longer, and an alert that is found again is another page.

    >>> first, second = CriticalAlert("a", 10, 10, 20), CriticalAlert("b", 15, 15, 30)
    >>> page_episodes([first, second, CriticalAlert("a", 40, 40, None)])
    [10, 40]
    """
    opened: list[int] = []
    for passage in _passages(alerts):
        until = -math.inf
        for alert in sorted(passage, key=lambda alert: alert.severity_step):
            if alert.severity_step > until:
                opened.append(alert.severity_step)
            until = max(until, alert.until)
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


def measure(runs: Sequence[JudgedRun], version: str, *, gpus: float) -> Measures:
    """Compute the measures of one version.

    Args:
        runs: The judged runs.
        version: The version; runs without alarms of it are left out.
        gpus: GPUs of a run.
    """
    found = [(run, run.alarms[version]) for run in runs if version in run.alarms]
    failing = [(run, alarms) for run, alarms in found if run.has_failed]
    leads = [
        max(0, run.failed_at - alarms.pages[0]) if alarms.pages else 0
        for run, alarms in failing
        if run.failed_at is not None
    ]
    spans = [
        max(run.times.values()) - run.times[a.pages[0]] for run, a in failing if a.pages and a.pages[0] in run.times
    ]
    has_times = any(run.times for run, _ in found)
    wrong = [run.times.get(page) for run, alarms in found if not run.has_failed for page in alarms.pages]
    return Measures(
        runs=len(found),
        pages=sum(len(alarms.pages) for _, alarms in found),
        right_pages=sum(len(alarms.pages) for _, alarms in failing),
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
        before, now = run.alarms[version], run.alarms[CURRENT]
        if not run.has_failed:
            if len(now.pages) > len(before.pages):
                lines.append(f"{run.name}: {len(now.pages)} wrong pages, where there were {len(before.pages)}")
            elif now.is_warned and not before.is_warned:
                lines.append(f"{run.name}: a wrong warning, where there was none")
        elif before.pages and not now.pages:
            lines.append(f"{run.name}: no page, where there was a right one at step {before.pages[0]}")
        elif before.pages and now.pages[0] > before.pages[0]:
            lines.append(f"{run.name}: paged at step {now.pages[0]}, where it was paged at step {before.pages[0]}")
        elif before.is_warned and not now.is_warned:
            lines.append(f"{run.name}: no warning, where there was a right one")
    return lines


def _night(at: float) -> tuple[int, int] | None:
    """Return the night of a time, named by the day on which it begins; None for a time by day."""
    local = time.localtime(at)
    if NIGHT_ENDS <= local.tm_hour < NIGHT_BEGINS:
        return None
    evening = local if local.tm_hour >= NIGHT_BEGINS else time.localtime(at - NIGHT_ENDS * HOUR_SECONDS)
    return evening.tm_year, evening.tm_yday
