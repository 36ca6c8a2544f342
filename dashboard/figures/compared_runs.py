"""The runs that are compared: the settings whose seeds they are, and the places of their steps on a common axis."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dashboard.collector_client.types.runs import PhaseItem, RunDetail, RunItem, SeriesItem
from dashboard.figures.curves.panel_view import steps_around

__all__ = [
    "ALIGNMENTS",
    "PARTICIPLES",
    "Compared",
    "missing_phase",
    "origin_step",
    "places_of",
    "seed_of",
    "setting_of",
    "settings_of",
    "steps_within",
]

ALIGNMENTS: Final = {
    "step": "step",
    "share": "share of the run",
    "time": "hours since the start",
    "acceleration": "steps from the acceleration",
    "collapse": "steps from the collapse",
}
# The phases whose first step is the origin of an alignment, by the alignment's name.
ORIGINS: Final = {"acceleration": ("acceleration", "collapsed"), "collapse": ("collapsed",)}
PARTICIPLES: Final = {"acceleration": "accelerated", "collapse": "collapsed"}
SEED: Final = re.compile(r"[-_ /]*seed[-_ =]*\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Compared:
    """A run among those that are compared.

    Attributes:
        run: The run.
        phases: Its phases, oldest first.
        series: Its signals, thinned to their extremes.
        place: Its number, which gives its colour.
        means: The means of sections of its signals, if they are averaged; the series, where nothing was thinned.
        began: The time of its first step, Unix seconds, if the axis is time; that of a series, if it is not known.
    """

    run: RunDetail
    phases: Sequence[PhaseItem]
    series: Mapping[str, SeriesItem]
    place: int
    means: Mapping[str, SeriesItem] = field(default_factory=dict)
    began: float | None = None


def origin_step(phases: Sequence[PhaseItem], align: str) -> int | None:
    """Return the step from which an alignment counts: of the acceleration (phase III) or of the collapse; or None."""
    return next((span["from_step"] for span in phases if span["phase"] in ORIGINS[align]), None)


def missing_phase(compared: Compared, align: str) -> str:
    """Return why a run has no line in an alignment: that it has not accelerated, or collapsed; empty if it has one."""
    if align not in PARTICIPLES or origin_step(compared.phases, align) is not None:
        return ""
    return f"has not {PARTICIPLES[align]}"


def steps_within(compared: Compared, align: str, zoom: tuple[float, float]) -> tuple[int, int] | None:
    """Return the first and the last step of a run in an interval of the axis; None if it has no step there."""
    for series in compared.series.values():
        around = steps_around(series["steps"], places_of(compared, series, align), zoom)
        if around is not None:
            return around
    return None


def setting_of(run: RunItem) -> str:
    """Return the name of a run without its seed."""
    return SEED.sub("", run["name"]) or run["name"]


def seed_of(run: RunItem) -> str:
    """Return the part of a run's name beside its setting, such as ``seed3``; without such a part, the whole name."""
    found = SEED.search(run["name"])
    return found[0].strip("-_ /") if found and setting_of(run) != run["name"] else run["name"]


def settings_of(runs: Sequence[Compared]) -> dict[str, list[Compared]]:
    """Return the runs by their settings, in the order that gives each setting its colour in every chart."""
    settings: dict[str, list[Compared]] = {}
    for run in runs:
        settings.setdefault(setting_of(run.run), []).append(run)
    return settings


def places_of(compared: Compared, series: SeriesItem, align: str) -> list[float]:
    """Return the positions of the points on the axis; empty if the run has no origin."""
    steps = series["steps"]
    if align == "time":
        times = series.get("times") or []
        began = compared.began
        return [(time - (times[0] if began is None else began)) / 3600 for time in times]
    if align in ORIGINS:
        origin = origin_step(compared.phases, align)
        return [] if origin is None else [float(step - origin) for step in steps]
    if align == "share":
        last = max(1, compared.run.get("last_step") or max(steps, default=1))
        return [step / last for step in steps]
    return [float(step) for step in steps]
