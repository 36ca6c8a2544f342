"""Renders domain events in the shapes of the stream, after their commit."""

import json
from dataclasses import dataclass
from typing import assert_never

import msgspec

from monitor_server.api.schemas import ActionEvent, ForkItem, StepEvent, ViewEvent, alert_item, run_item
from monitor_server.detection.protocol import Phase
from monitor_server.step_processing.events import (
    ActionReported,
    AlertChanged,
    Event,
    RunChanged,
    RunDeleted,
    StepCompleted,
    ViewShown,
)

__all__ = ["RenderedEvent", "render"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedEvent:
    """One server-sent event: ``kind`` is its ``event:`` field, ``data`` is JSON."""

    kind: str
    data: str


def render(event: Event) -> RenderedEvent:
    """Render a domain event in the form of the stream."""
    match event:
        case StepCompleted():
            return RenderedEvent(kind="step", data=_step(event).model_dump_json())
        case AlertChanged(alert=alert):
            row = {name: getattr(alert, name) for name in alert.__slots__}
            open_kinds = () if alert.state == "resolved" else event.open_kinds
            item = alert_item(row | {"run": event.run, "project": event.project, "open_instrument_kinds": open_kinds})
            return RenderedEvent(kind="alert", data=item.model_dump_json())
        case ActionReported():
            return RenderedEvent(kind="action", data=_action(event).model_dump_json())
        case RunChanged(view=view):
            return RenderedEvent(kind="run", data=run_item(view).model_dump_json())
        case RunDeleted():
            return RenderedEvent(kind="deleted", data=json.dumps({"run_id": event.run_id}))
        case ViewShown():
            shown = ViewEvent(address=event.address, note=event.note, by=event.by, at=event.at)
            return RenderedEvent(kind="view", data=shown.model_dump_json())
    assert_never(event)


def _step(event: StepCompleted) -> StepEvent:
    return StepEvent(
        run_id=event.run_id,
        attempt=event.attempt,
        step=event.step.step,
        time=event.step.time,
        phase=Phase.read(event.phase),
        last_seen=event.last_seen,
        signals=dict(event.step.signals),
    )


def _action(event: ActionReported) -> ActionEvent:
    report = event.report
    return ActionEvent(
        run_id=event.run_id,
        action=report.action,
        outcome=report.outcome,
        alert_id=report.alert_id,
        reason=report.reason,
        detail=report.detail,
        attempt=event.attempt,
        step=event.step,
        rank=event.rank,
        time=event.time,
        forks=[ForkItem.model_validate(msgspec.structs.asdict(fork)) for fork in report.forks],
    )
