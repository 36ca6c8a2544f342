"""Counts the rows that given limits would remove, within the time that a person waits, and removes nothing."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from monitor_server.durations import DAY_SECONDS
from monitor_server.retention.limits import SavableLimits, limits_in_force
from monitor_server.settings import Deadlines, Settings
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.retention.counts import Counted
from monitor_server.store.time_limit import Deadline

__all__ = ["COUNTING_SECONDS", "Removal", "preview_removals"]

COUNTING_SECONDS: Final = 10.0
"""The longest time for all counts of a request. Proxies and people who have pressed a button wait longer."""

Removes = Literal["records", "responses", "steps", "runs"]
REMOVES: Final[dict[str, Removes]] = {
    "record_steps": "records", "record_days": "records", "response_days": "responses", "step_days": "steps",
    "run_days": "runs",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The removal by one limit: a number of rows, which is a lower bound if the counting has ended early."""

    name: str
    removes: Removes
    runs: int
    rows: int
    is_complete: bool


def preview_removals(
    repositories: Repositories,
    settings: Settings,
    wanted: dict[str, float | None],
    *,
    now: float,
    seconds: float = COUNTING_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> list[Removal]:
    """Count the rows that each of some limits would remove beyond those that are removed already.

    The number of records is approximate, because records that wait for another rank are kept. The number of steps is an
    upper bound, because steps around alerts are kept. Each limit gets an equal share of the time that the earlier
    limits have left.
    """
    held = limits_in_force(repositories, settings)
    defaults = {name: Settings.model_fields[name].default for name, value in wanted.items() if value is None}
    given: dict[str, Any] = wanted | defaults
    limits = replace(held, **given)
    names = [*wanted, "step_days"] if "thinned_steps" in wanted else list(wanted)
    counted = [name for name in dict.fromkeys(names) if name in REMOVES and getattr(limits, name) is not None]
    end, removals = monotonic() + seconds, []
    for place, name in enumerate(counted):
        deadline = Deadline((end - monotonic()) / (len(counted) - place), monotonic=monotonic)
        found = _count(repositories, name, limits, deadline, now=now, deadlines=settings.deadlines)
        removals.append(
            Removal(name=name, removes=REMOVES[name], runs=found.runs, rows=found.rows, is_complete=found.is_complete)
        )
    return removals


def _count(
    repositories: Repositories,
    name: str,
    limits: SavableLimits,
    deadline: Deadline,
    *,
    now: float,
    deadlines: Deadlines,
) -> Counted:
    value, counts = getattr(limits, name), repositories.retention_counts
    if name == "record_steps":
        return counts.records(deadline, kept_steps=int(value))
    since = now - value * DAY_SECONDS
    if name == "record_days":
        return counts.records(deadline, silent_since=since)
    if name == "response_days":
        return counts.responses(deadline, silent_since=since)
    kept = repositories.rules.compared_runs()
    if name == "step_days":
        return counts.steps(deadline, silent_since=since, most=limits.thinned_steps, without=kept)
    return counts.runs(deadline, silent_since=since, now=now, deadlines=deadlines, without=kept)
