"""Counts what limits would remove if they were in force, and removes nothing."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from monitor_server.durations import DAY_SECONDS
from monitor_server.retention.limits import Limits, limits_in_force
from monitor_server.settings import Deadlines, Settings
from monitor_server.store.repositories import Repositories

__all__ = ["Removal", "previewed_removals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What one limit would remove: rows of so many runs."""

    name: str
    removes: Literal["records", "responses", "steps", "runs"]
    runs: int
    rows: int


def previewed_removals(
    repositories: Repositories, settings: Settings, wanted: dict[str, float | None], *, now: float
) -> list[Removal]:
    """Count what each of some limits would remove beyond what is removed already.

    Of records the number is near: those that wait for another rank stay. Of steps it is the most: steps around alerts
    stay.
    """
    held = limits_in_force(repositories, settings)
    defaults = {name: Settings.model_fields[name].default for name, value in wanted.items() if value is None}
    given: dict[str, Any] = wanted | defaults
    limits = replace(held, **given)
    names = [*wanted, "step_days"] if "thinned_steps" in wanted else list(wanted)
    return [
        removal
        for name in dict.fromkeys(names)
        if (removal := _count(repositories, name, limits, now=now, deadlines=settings.deadlines)) is not None
    ]


def _count(
    repositories: Repositories, name: str, limits: Limits, *, now: float, deadlines: Deadlines
) -> Removal | None:
    value, counts = getattr(limits, name), repositories.retention_counts
    if value is None or name == "thinned_steps":
        return None
    if name == "record_steps":
        runs, rows = counts.records(kept_steps=int(value))
        return Removal(name=name, removes="records", runs=runs, rows=rows)
    since = now - value * DAY_SECONDS
    if name == "record_days":
        runs, rows = counts.records(silent_since=since)
        return Removal(name=name, removes="records", runs=runs, rows=rows)
    if name == "response_days":
        runs, rows = counts.responses(silent_since=since)
        return Removal(name=name, removes="responses", runs=runs, rows=rows)
    if name == "step_days":
        runs, rows = counts.steps(silent_since=since, most=limits.thinned_steps)
        return Removal(name=name, removes="steps", runs=runs, rows=rows)
    runs, rows = counts.runs(silent_since=since, now=now, deadlines=deadlines)
    return Removal(name=name, removes="runs", runs=runs, rows=rows)
