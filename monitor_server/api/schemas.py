"""The shapes of the API's answers: one model for each shape of docs/api.md, made from rows of the store.

A number that is not finite is written as "NaN", "Infinity" or "-Infinity".
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from monitor_server.access.cursors import hide
from monitor_server.alerts.liveness import shown_phase
from monitor_server.alerts.transitions import Stage
from monitor_server.detection.protocol import Phase, Severity
from monitor_server.store.encoding.stored_json import read_object, showable
from monitor_server.store.repositories.responses import StoredResponse
from monitor_server.store.repositories.runs import SPARKLINE_SIGNAL, read_recent
from trainer_hooks.wire import Action, ActionOutcome, Array, Capability, ResponseKind, spell_non_finite

__all__ = [
    "AcknowledgementItem",
    "ActionEvent",
    "ActionItem",
    "AlertItem",
    "AlertState",
    "AttemptItem",
    "Health",
    "HistoryItem",
    "PhaseItem",
    "Readiness",
    "ResponseItem",
    "RunDetail",
    "RunItem",
    "Schema",
    "SeriesItem",
    "Sparkline",
    "Status",
    "StepEvent",
    "StepItem",
    "alert_item",
    "response_item",
    "response_numbers",
    "run_detail",
    "run_item",
]

Status = Literal["running", "finished", "stopped", "stalled", "lost"]
AlertState = Literal["pending", "firing", "resolved"]


class Schema(BaseModel):
    """Base of all shapes of answers."""

    model_config = ConfigDict(ser_json_inf_nan="strings", frozen=True)


class Sparkline(Schema):
    """The newest values of one signal."""

    signal: str
    values: list[float]


class RunItem(Schema):
    """A run, as lists show it."""

    id: str
    project: str
    name: str
    status: Status
    phase: Phase
    attempt: int
    last_step: int | None
    last_seen: float
    started_at: float
    world_size: int
    capability: Capability
    source: str
    alerts: int
    sparkline: Sparkline
    step_seconds: float | None = Field(description="Median time of a step, once two were seen")
    phase_from_step: int | None = Field(description="The first step of the current phase")
    title: str | None = Field(description="What people call the run, in place of its name")
    tags: list[str]
    archived: bool


class RunDetail(RunItem):
    """A run with its configuration and the names of its signals; a run that cannot be processed states why."""

    config: dict[str, JsonValue] | None
    signals: list[str]
    quarantine_reason: str | None
    notes: str | None


class AttemptItem(Schema):
    """One attempt of a run, counted from 1; ``number`` is what its trainer calls it (`RLVITALS_ATTEMPT`)."""

    attempt: int
    number: int
    world_size: int


class SeriesItem(Schema):
    """The values of one signal at the steps at which it was observed."""

    signal: str
    steps: list[int]
    values: list[float]
    times: list[float] | None = None  # when each step was recorded, Unix seconds, if asked for


class StepItem(Schema):
    """One step with all its signals."""

    step: int
    attempt: int
    time: float
    policy_version: int | None
    signals: dict[str, float]
    damaged: bool = Field(default=False, description="Its stored signals cannot be decoded, and are left out")


class ResponseItem(Schema):
    """A sampled response: its T tokens, of which those inside ``actions`` have a likelihood."""

    id: str
    run_id: str
    step: int
    attempt: int
    rank: int
    kinds: list[ResponseKind]
    correct: bool
    reward: float
    group: int | None
    advantage: float | None
    truncated: bool | None
    length: int
    logprob: float
    displacement: float | None
    trained: bool | None
    actions: list[tuple[int, int]]
    logprobs: list[float]
    displacements: list[float] | None
    entropies: list[float] | None
    token_ids: list[int] | None
    pieces: list[str] | None
    text: str | None


class PhaseItem(Schema):
    """An interval of steps, both ends included; ``to_step`` is null for the phase the run is in."""

    phase: Phase
    from_step: int
    to_step: int | None


class AlertItem(Schema):
    """One opening of an alert; ``state`` is a part of what ``stage`` says."""

    id: str
    run_id: str
    run: str
    project: str
    kind: str
    severity: Severity
    state: AlertState
    stage: Stage
    phase: Phase
    opened_step: int
    severity_step: int
    last_step: int
    resolved_step: int | None
    opened_at: float
    acknowledged_at: float | None
    acknowledged_by: str | None
    note: str | None
    reopened_from: str | None
    silence_id: str | None
    silenced_until: float | None
    summary: str
    evidence: dict[str, JsonValue]


class HistoryItem(Schema):
    """Something that happened to an alert; ``by`` is null where the collector caused it."""

    alert_id: str
    at: float
    change: str
    stage: Stage
    step: int | None
    by: str | None
    why: str


class ActionItem(Schema):
    """An action of the trainer about an alert: taken, only foreseen, or refused, with the reason."""

    action: Action
    outcome: ActionOutcome
    alert_id: str
    reason: str
    detail: str
    attempt: int
    step: int
    rank: int
    time: float


class ActionEvent(ActionItem):
    """An action, as the stream sends it."""

    run_id: str


class AcknowledgementItem(Schema):
    """A person acknowledged an alert; ``attempt`` counts from 1, ``step`` is the newest that detection had seen."""

    alert_id: str
    kind: str
    attempt: int
    step: int
    at: float
    by: str
    note: str


class StepEvent(Schema):
    """A step, as the stream sends it."""

    run_id: str
    attempt: int
    step: int
    phase: Phase
    signals: dict[str, float]


class Health(Schema):
    """The answer of a health check that passes."""

    status: Literal["ok"] = "ok"


class Readiness(Health):
    """The collector stores and processes batches; ``quarantined_runs`` cannot be processed, and are stored only.

    ``failing_channels`` of notifications do not accept their messages. Both are null for who may not read every
    project.
    """

    quarantined_runs: int | None
    failing_channels: int | None


def run_item(row: Mapping[str, Any]) -> RunItem:
    """Make a run's item from its row in ``Runs.page`` or ``Runs.view``."""
    return RunItem.model_validate(_run_fields(row))


def run_detail(row: Mapping[str, Any], signals: Sequence[str]) -> RunDetail:
    """Make a run's detailed item from its row in ``Runs.view``."""
    config = None if row["config"] is None else read_object(row["config"])
    return RunDetail.model_validate(_run_fields(row) | {"config": config, "signals": sorted(signals)})


def response_item(run_id: str, stored: StoredResponse, *, attempt: int) -> ResponseItem:
    """Make a response's item; ``attempt`` counts from 1."""
    response = stored.response
    plain = {name: getattr(response, name) for name in response.__struct_fields__}
    arrays = {name: value.to_numpy().tolist() for name, value in plain.items() if isinstance(value, Array)}
    place = {
        "id": str(hide(stored.number)),
        "run_id": run_id,
        "step": stored.step,
        "attempt": attempt,
        "rank": stored.rank,
    }
    return ResponseItem.model_validate(plain | arrays | place)


def response_numbers(stored: StoredResponse) -> int:
    """Return about how many numbers a response's item holds; a text counts by its length."""
    response = stored.response
    arrays = (getattr(response, name) for name in response.__struct_fields__)
    numbers = sum(len(value.to_numpy()) for value in arrays if isinstance(value, Array))
    return numbers + sum(map(len, response.pieces or ())) // 8 + len(response.text or "") // 8


def alert_item(row: Mapping[str, Any]) -> AlertItem:
    """Make an alert's item from its row in ``Alerts.page``."""
    evidence = row["evidence"]
    spelled = read_object(evidence) if isinstance(evidence, bytes) else showable(spell_non_finite(evidence))
    return AlertItem.model_validate({**row, "evidence": spelled})


def _run_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "phase": shown_phase(row["status"], row["phase"]),
        "attempt": row["ordinal"],
        "alerts": row["firing"],
        "tags": [] if row["tags"] is None else json.loads(row["tags"]),
        "archived": row["archived_at"] is not None,
        "sparkline": {"signal": SPARKLINE_SIGNAL, "values": read_recent(row["recent"]).rewards},
    }
