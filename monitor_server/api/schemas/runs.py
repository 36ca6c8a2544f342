"""Runs, their attempts, signals, steps and phases."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, JsonValue

from monitor_server.alerts.liveness import shown_phase
from monitor_server.api.schemas.base import Schema, Time
from monitor_server.detection.protocol import MOST_SEVERE_FIRST, Phase, Severity
from monitor_server.store.encoding.stored_json import read_object
from monitor_server.store.repositories.recent_steps import SPARKLINE_SIGNAL, read_recent
from trainer_hooks.wire import Capability

__all__ = [
    "AttemptItem",
    "PhaseItem",
    "RunDetail",
    "RunGroupItem",
    "RunItem",
    "RunRow",
    "SeriesItem",
    "Sparkline",
    "Status",
    "StepEvent",
    "StepItem",
    "group_item",
    "row_item",
    "run_detail",
    "run_item",
]

Status = Literal["running", "finished", "stopped", "stalled", "lost"]


class Sparkline(Schema):
    """The newest values of one signal."""

    signal: str
    values: list[float]


class AlertCounts(Schema):
    """The number of firing alerts, by severity."""

    critical: int
    warning: int
    info: int


class LeadingAlert(Schema):
    """The most important firing alert of a run: the most severe, and among those the newest."""

    id: str
    kind: str
    severity: Severity
    summary: str


class RunItem(Schema):
    """A run, in the form of lists."""

    id: str
    project: str
    name: str
    status: Status
    phase: Phase
    attempt: int
    last_step: int | None
    last_seen: Time
    started_at: Time
    world_size: int
    capability: Capability
    source: str
    alerts: int
    sparkline: Sparkline
    step_seconds: float | None = Field(
        description="Median seconds from one step to the next; null before two steps were seen"
    )
    phase_from_step: int | None = Field(
        description="The first step of the current phase; null for a silent or quarantined run, whose phase is unknown"
    )
    title: str | None = Field(description="The title that a person gave the run; it is shown instead of the name")
    tags: list[str]
    archived: bool
    owner: str | None = Field(description="NAME of the first tag of the form `owner:NAME`")
    setting: str = Field(description="The name of the run without its seed")
    reward: float | None = Field(description="The newest finite mean reward")
    reward_change: float | None = Field(
        description="Mean of the newest 8 rewards minus the mean of the first 8 of the newest 64 steps"
    )
    alert_counts: AlertCounts
    leading_alert: LeadingAlert | None
    alert_gpu_hours: float | None = Field(
        description="Hours from the first firing alert to the newest record, times the number of ranks"
    )


class LeftOutItem(Schema):
    """Signals that a run sends and that are not stored, because the number of its signals has reached the limit."""

    signals: int = Field(description="Largest number of signals that were left out of one record")
    from_step: int = Field(description="First step of which a signal was left out")
    name: str = Field(description="One of the signals that were left out")
    limit: int = Field(description="Largest number of signals of a run, without those that are always stored")


class RunDetail(RunItem):
    """A run with its configuration and the names of its signals; a run that cannot be processed has a reason."""

    config: dict[str, JsonValue] | None
    signals: list[str]
    quarantine_reason: str | None
    notes: str | None
    left_out: LeftOutItem | None = Field(description="Null if every signal is stored")
    thinned: bool = Field(description="Whether retention has removed some of its steps")


class RunGroupItem(Schema):
    """Runs with a common value; ``name`` is null for the runs without a value."""

    name: str | None
    runs: int
    last_seen: Time = Field(description="Time of the newest record of these runs, in seconds since the epoch")
    phase: Phase = Field(description="The worst phase of these runs")
    alerts: AlertCounts = Field(description="Firing alerts of these runs")


class RunRow(Schema):
    """A row of a table of runs in groups: either ``group``, the head of a group, or ``run``; the other one is null."""

    group: RunGroupItem | None = None
    run: RunItem | None = None


class AttemptItem(Schema):
    """One attempt of a run, counted from 1; ``number`` is the trainer's number (`RLVITALS_ATTEMPT`)."""

    attempt: int
    number: int
    world_size: int


class SeriesItem(Schema):
    """The values of one signal at the steps at which it was observed."""

    signal: str
    steps: list[int]
    values: list[float]
    times: list[Time] | None = None  # the time at which each step was recorded, Unix seconds, if requested
    counts: list[int] | None = (
        None  # the number of finite values of which each value is the mean, if means are requested
    )


class StepItem(Schema):
    """One step with all its signals."""

    step: int
    attempt: int
    time: Time
    policy_version: int | None
    signals: dict[str, float]
    damaged: bool = Field(
        default=False, description="Whether the stored signals of the step cannot be decoded; then they are left out"
    )


class PhaseItem(Schema):
    """An interval of steps, both ends included; ``to_step`` is null for the current phase."""

    phase: Phase
    from_step: int
    to_step: int | None


def phase_items(rows: Iterable[tuple[str, int, int | None]]) -> list[PhaseItem]:
    """Make the phases of a run from their names, first and last steps."""
    return [
        PhaseItem.model_validate({"phase": phase, "from_step": first, "to_step": last}) for phase, first, last in rows
    ]


class StepEvent(Schema):
    """A step, in the form of the stream."""

    run_id: str
    attempt: int
    step: int
    time: Time
    phase: Phase
    last_seen: Time
    signals: dict[str, float]


def run_item(row: Mapping[str, Any]) -> RunItem:
    """Make a run's item from its row in ``RunViews``."""
    return RunItem.model_validate(_run_fields(row))


def run_detail(row: Mapping[str, Any], signals: Sequence[str], *, max_signals: int) -> RunDetail:
    """Make a run's detailed item from its row in ``RunViews.find_detail``.

    Args:
        row: The row.
        signals: The names of its signals.
        max_signals: The largest number of signals beside those that are always stored.
    """
    config = None if row["config"] is None else read_object(row["config"])
    names = {"signals": "left_out_signals", "from_step": "left_out_step", "name": "left_out_name"}
    lost = {name: row[column] for name, column in names.items()} | {"limit": max_signals}
    return RunDetail.model_validate(
        _run_fields(row)
        | {
            "config": config,
            "signals": sorted(signals),
            "left_out": lost if row["left_out_signals"] else None,
            "thinned": row["has_thinned_steps"],
        }
    )


def group_item(row: Mapping[str, Any]) -> RunGroupItem:
    """Make a group's item from its row in ``RunGroups``."""
    return RunGroupItem.model_validate({**row, "alerts": {name: row[name] for name in MOST_SEVERE_FIRST}})


def row_item(group: Mapping[str, Any] | None, run: Mapping[str, Any] | None) -> RunRow:
    """Make the item of a row that is the head of a group or a run, from its row in ``RunGroups`` or ``RunViews``."""
    return RunRow(group=None if group is None else group_item(group), run=None if run is None else run_item(run))


def _run_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    firing = row["firing"]
    first = min((alert["opened_at"] for alert in firing), default=0.0)
    phase = shown_phase(row["status"], row["phase"], is_quarantined=row["quarantined_at"] is not None)
    return {
        **row,
        "phase": phase,
        "phase_from_step": row["phase_from_step"] if phase == row["phase"] else None,
        "attempt": row["ordinal"],
        "alerts": len(firing),
        "alert_counts": {name: sum(alert["severity"] == name for alert in firing) for name in MOST_SEVERE_FIRST},
        "leading_alert": firing[0] if firing else None,
        "alert_gpu_hours": max(0.0, row["last_seen"] - first) / 3600 * row["world_size"] if firing else None,
        "owner": row["tagged_owner"],
        "tags": [] if row["tags"] is None else json.loads(row["tags"]),
        "archived": row["archived_at"] is not None,
        "sparkline": {"signal": SPARKLINE_SIGNAL, "values": read_recent(row["recent"]).rewards},
    }
