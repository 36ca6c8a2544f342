"""Alerts, their history, and what trainers did about them."""

from typing import Final, TypedDict

__all__ = [
    "RULE_PREFIX",
    "ActionItem",
    "AlertItem",
    "ForkItem",
    "HistoryItem",
    "JudgementItem",
    "WarrantyItem",
    "kind_name",
]

RULE_PREFIX: Final = "rule:"  # the beginning of the kind of an alert that a rule has opened


def kind_name(kind: str) -> str:
    """Return the kind of an alert in words; the name of a rule stays as its author wrote it."""
    if kind.startswith(RULE_PREFIX):
        return f"rule {kind.removeprefix(RULE_PREFIX)}"
    return kind.replace("_", " ")


class AlertItem(TypedDict, total=False):
    """An alert, with its arithmetic in ``evidence``."""

    id: str
    run_id: str
    run: str
    project: str
    kind: str
    suspect: str
    instrument_alerts: list[str]
    severity: str
    state: str
    stage: str
    silenced_until: float | None
    phase: str
    opened_step: int
    severity_step: int
    warned_step: int | None
    last_step: int | None
    resolved_step: int | None
    is_taken_back: bool
    opened_at: float
    acknowledged_at: float | None
    acknowledged_by: str | None
    note: str | None
    summary: str
    evidence: dict[str, object]


class HistoryItem(TypedDict):
    """Something that happened to an alert; ``by`` is None where the collector caused it."""

    alert_id: str
    at: float
    change: str
    stage: str
    step: int | None
    by: str | None
    why: str


class JudgementItem(TypedDict):
    """Whether an alarm was right, as a person says after the run; ``failed_at`` is the step of the failure."""

    alert_id: str
    kind: str
    is_right: bool
    failed_at: int | None
    by: str
    note: str


class WarrantyItem(TypedDict):
    """The warranty of a run, and how much of its false-alarm budget is spent."""

    is_in_force: bool
    promise: str
    is_longer: bool
    pages_allowed: float
    pages_opened: int
    steps_held_back: int


class ForkItem(TypedDict):
    """A fork that a trainer has tried; ``…_gain`` is the difference to the unchanged fork: low, mean, high."""

    name: str
    steps: int
    is_winner: bool
    has_diverged: bool
    reward: float
    reward_gain: list[float]
    displacement: float
    displacement_gain: list[float]
    entropy: float


class ActionItem(TypedDict):
    """An action of a trainer about an alert: taken, only logged (``dry_run``), or not taken (``detail`` says why)."""

    action: str
    outcome: str
    alert_id: str
    reason: str
    detail: str
    attempt: int
    step: int
    rank: int
    time: float
    forks: list[ForkItem]
