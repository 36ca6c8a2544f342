"""Alerts, their history, and the actions of trainers and people about them."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import JsonValue

from monitor_server.action_requests.requesting import RequestableAction, RequestState
from monitor_server.alerts.changes.stages import Stage, is_taken_back
from monitor_server.api.schemas.base import Schema, Time
from monitor_server.detection.protocol import Phase, Severity
from monitor_server.detection.suspects import Suspect, doubts, suspect_of
from monitor_server.store.encoding.stored_json import read_object, showable
from trainer_hooks.wire import ActionOutcome, ReportedAction, spell_non_finite

__all__ = [
    "AcknowledgementItem",
    "ActionEvent",
    "ActionItem",
    "AlertItem",
    "AlertState",
    "ForkItem",
    "HistoryItem",
    "JudgementItem",
    "RequestItem",
    "alert_item",
    "history_item",
]

AlertState = Literal["pending", "firing", "resolved"]


class AlertItem(Schema):
    """One opening of an alert; ``state`` follows from ``stage``.

    ``is_taken_back`` says that it was resolved because the run went back to ``resolved_step``. ``suspect`` is the part
    of the training that this kind of alert points at. ``instrument_alerts`` are the kinds that fire on the run at the
    same time and make its numbers doubtful; where there are some, the instrument is to be checked first.
    """

    id: str
    run_id: str
    run: str
    project: str
    kind: str
    suspect: Suspect
    instrument_alerts: list[str]
    severity: Severity
    state: AlertState
    stage: Stage
    phase: Phase
    opened_step: int
    severity_step: int
    warned_step: int | None
    last_step: int
    resolved_step: int | None
    is_taken_back: bool
    opened_at: Time
    acknowledged_at: Time | None
    acknowledged_by: str | None
    note: str | None
    reopened_from: str | None
    silence_id: str | None
    silenced_until: Time | None
    summary: str
    evidence: dict[str, JsonValue]


class HistoryItem(Schema):
    """A change of an alert, or a comment; ``by`` is null if the collector caused it."""

    alert_id: str
    at: Time
    change: str
    stage: Stage
    step: int | None
    by: str | None
    why: str


class JudgementItem(Schema):
    """A person's judgement after the run whether an alarm was right; ``failed_at`` is the step of the failure."""

    alert_id: str
    kind: str
    is_right: bool
    failed_at: int | None
    at: Time
    by: str
    note: str


class ForkItem(Schema):
    """A fork that a trainer has tried: a short training from a healthy checkpoint, measured on held-out contexts.

    ``displacement`` and ``entropy`` are mean changes in nats a token; ``…_gain`` is the difference to the unchanged
    fork with its 95 % interval: low, mean, high.
    """

    name: str
    steps: int
    is_winner: bool
    has_diverged: bool
    reward: float
    reward_gain: tuple[float, float, float]
    displacement: float
    displacement_gain: tuple[float, float, float]
    entropy: float


class ActionItem(Schema):
    """An action of the trainer about an alert: taken, only planned in a dry run, or refused, with the reason."""

    action: ReportedAction
    outcome: ActionOutcome
    alert_id: str
    reason: str
    detail: str
    attempt: int
    step: int
    rank: int
    time: Time
    forks: list[ForkItem]


def action_item(row: Mapping[str, Any], ordinals: Mapping[int, tuple[int, int]]) -> ActionItem:
    """Make an action from its row, and from the ordinals of its run's attempts."""
    return ActionItem.model_validate({**row, "attempt": ordinals[row["attempt"]][0]})


class ActionEvent(ActionItem):
    """An action, in the form of the stream."""

    run_id: str


class RequestItem(Schema):
    """An action that a person requested from a trainer; times are seconds since the epoch.

    ``step`` and ``phase`` belong to the trainer's answer, and ``detail`` is its text.
    """

    id: str
    run_id: str
    alert_id: str
    action: RequestableAction
    state: RequestState
    requested_at: Time
    requested_by: str
    note: str
    expires_at: Time
    changed_at: Time
    step: int | None
    phase: Phase | None
    detail: str


class AcknowledgementItem(Schema):
    """A person's acknowledgement; ``attempt`` counts from 1, ``step`` is the newest step of detection at that time."""

    alert_id: str
    kind: str
    attempt: int
    step: int
    at: Time
    by: str
    note: str


def history_item(row: Mapping[str, Any]) -> HistoryItem:
    """Make an entry's item from its row in ``AlertHistory.page``."""
    return HistoryItem.model_validate({name: row[name] for name in HistoryItem.model_fields})


def alert_item(row: Mapping[str, Any]) -> AlertItem:
    """Make an alert's item from its row in ``Alerts.page``."""
    evidence = row["evidence"]
    spelled = read_object(evidence) if isinstance(evidence, bytes) else showable(spell_non_finite(evidence))
    return AlertItem.model_validate(
        {
            **row,
            "evidence": spelled,
            "suspect": suspect_of(row["kind"]),
            "instrument_alerts": doubts(row["kind"], row.get("open_instrument_kinds", ())),
            "is_taken_back": is_taken_back(
                kind=row["kind"],
                severity_step=row["severity_step"],
                last_step=row["last_step"],
                resolved_step=row["resolved_step"],
            ),
        }
    )
