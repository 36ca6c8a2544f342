"""Runs, their signals, phases, marks and forecast."""

from typing import Literal, NotRequired, TypedDict

__all__ = [
    "AlertCounts",
    "DriverItem",
    "ExpectedRangeItem",
    "ForecastItem",
    "HorizonItem",
    "LeadingAlert",
    "LeftOutItem",
    "MarkItem",
    "PhaseItem",
    "RunDetail",
    "RunGroupItem",
    "RunItem",
    "RunRow",
    "SeriesItem",
    "Sparkline",
    "Statistic",
    "shown_name",
]


class Sparkline(TypedDict):
    """The last values of one signal, oldest first; non-finite floats where the signal was not finite."""

    signal: str
    values: list[float]


class AlertCounts(TypedDict):
    """How many alerts fire, by severity."""

    critical: int
    warning: int
    info: int


class LeadingAlert(TypedDict):
    """The leading alert of a run: among its most severe firing alerts, the newest."""

    id: str
    kind: str
    severity: str
    summary: str


class RunItem(TypedDict, total=False):
    """A run, as in a list of runs; ``alerts`` counts the firing alerts."""

    id: str
    project: str
    name: str
    status: str
    phase: str
    attempt: int
    last_step: int | None
    last_seen: float | None
    started_at: float | None
    world_size: int
    capability: str
    source: str
    alerts: int
    sparkline: Sparkline | None
    step_seconds: float | None
    phase_from_step: int | None
    title: str | None
    tags: list[str]
    archived: bool
    owner: str | None
    setting: str
    reward: float | None
    reward_change: float | None
    alert_counts: AlertCounts
    leading_alert: LeadingAlert | None
    alert_gpu_hours: float | None


def shown_name(run: RunItem) -> str:
    """Return the name of a run for readers: its title, or else the name that its trainer gave it."""
    return run.get("title") or run["name"]


class RunGroupItem(TypedDict):
    """Runs that have a value in common; ``name`` is None for runs without a value, ``phase`` is the worst phase."""

    name: str | None
    runs: int
    last_seen: float
    phase: str
    alerts: AlertCounts


class RunRow(TypedDict):
    """A row of a table of runs in groups: the head of a group, or a run; the other field is None."""

    group: RunGroupItem | None
    run: RunItem | None


class LeftOutItem(TypedDict):
    """Signals that a run sends and that are not stored: the most in one record, the first step, and an example."""

    signals: int
    from_step: int
    name: str
    limit: int


class RunDetail(RunItem, total=False):
    """A run, with the fields that the API returns only for a single run."""

    config: dict[str, object] | None
    signals: list[str]
    notes: str | None
    left_out: LeftOutItem | None
    thinned: bool


Statistic = Literal["extremes", "mean"]
"""What is read of each section of a signal with too many points."""


class SeriesItem(TypedDict):
    """One signal over steps, the newest attempt's value at each step; ``times`` (Unix seconds) if asked for.

    Of means, ``counts`` states of how many values each is the mean.
    """

    signal: str
    steps: list[int]
    values: list[float]
    times: NotRequired[list[float] | None]
    counts: NotRequired[list[int] | None]


class PhaseItem(TypedDict):
    """A phase of a run; ``to_step`` is None for the current phase."""

    phase: str
    from_step: int
    to_step: int | None


class ExpectedRangeItem(TypedDict):
    """The range of values of healthy runs: from ``steps[i]`` to ``steps[i + 1]``, from ``low[i]`` to ``high[i]``."""

    signal: str
    steps: list[int]
    low: list[float]
    high: list[float]
    runs: int


class MarkItem(TypedDict):
    """An event of a run at a step: an attempt, a rewind, an action, an acknowledgement or a comment."""

    kind: str
    step: int
    time: float
    text: str
    by: str | None


class HorizonItem(TypedDict):
    """The probability of a collapse within a number of recorded steps."""

    within: int
    probability: float
    base_rate: float


class DriverItem(TypedDict):
    """One piece of evidence that raises the probability."""

    name: str
    description: str
    odds_ratio: float


class ForecastItem(TypedDict):
    """The forecast of a run after its newest step; without ``drivers`` it is the base rate."""

    step: int
    horizons: list[HorizonItem]
    drivers: list[DriverItem]
    model: str
    fitted_on: str
