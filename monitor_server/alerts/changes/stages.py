"""The life of an alert: its stages, the changes that can happen to it, the table of the next stages, and its end."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from monitor_server.alerts.kinds import MONITOR_DEGRADED
from monitor_server.store.repositories.alerts import Alert
from trainer_hooks.wire import ALERT_KINDS

__all__ = ["NEXT_STAGE", "Change", "Stage", "advance", "is_taken_back", "next_stage", "was_taken_back"]


class Stage(StrEnum):
    """The stage of an alert in its life."""

    PENDING = "pending"
    """Found, but for fewer steps than the settings require; no notification is sent."""
    FIRING = "firing"
    """Found, and nobody has acknowledged it."""
    NO_DATA = "no_data"
    """Found when the run last sent steps; the run is silent, so it is unknown whether the finding still holds."""
    ACKNOWLEDGED = "acknowledged"
    """Found, and acknowledged by a person."""
    SILENCED = "silenced"
    """Found, but a silence covers it and suppresses its notifications."""
    RESOLVED = "resolved"
    """No longer found. A finding that comes back opens another alert, which refers to this one."""


class Change(StrEnum):
    """A change of an open alert."""

    HELD = "held"
    """It was found for as many steps as the settings require."""
    RAISED = "raised"
    """It has become more severe, which ends an acknowledgement."""
    DATA_LOST = "data_lost"
    """Its run became silent."""
    DATA_RETURNED = "data_returned"
    """Its run sends steps again."""
    ACKNOWLEDGED = "acknowledged"
    """A person acknowledged it."""
    SILENCED = "silenced"
    """A silence covers it."""
    SILENCE_ENDED = "silence_ended"
    """No silence covers it any more."""
    COMMENTED = "commented"
    """A person wrote a comment about it."""
    RESOLVED = "resolved"
    """It is no longer found."""


ACTIVE: Final = None
"""In the table, this stands for the stage that follows from the alert: silenced, else acknowledged, else firing."""

_SAME_FOR_RESOLVED = dict.fromkeys(Change, Stage.RESOLVED)

NEXT_STAGE: Final[Mapping[Stage, Mapping[Change, Stage | None]]] = {
    Stage.PENDING: {
        Change.HELD: ACTIVE,
        Change.RAISED: ACTIVE,
        Change.DATA_LOST: Stage.PENDING,
        Change.DATA_RETURNED: Stage.PENDING,
        Change.ACKNOWLEDGED: Stage.PENDING,
        Change.SILENCED: Stage.PENDING,
        Change.SILENCE_ENDED: Stage.PENDING,
        Change.COMMENTED: Stage.PENDING,
        Change.RESOLVED: Stage.RESOLVED,
    },
    Stage.FIRING: {
        Change.HELD: Stage.FIRING,
        Change.RAISED: Stage.FIRING,
        Change.DATA_LOST: Stage.NO_DATA,
        Change.DATA_RETURNED: Stage.FIRING,
        Change.ACKNOWLEDGED: Stage.ACKNOWLEDGED,
        Change.SILENCED: Stage.SILENCED,
        Change.SILENCE_ENDED: Stage.FIRING,
        Change.COMMENTED: Stage.FIRING,
        Change.RESOLVED: Stage.RESOLVED,
    },
    Stage.NO_DATA: {
        Change.HELD: Stage.NO_DATA,
        Change.RAISED: ACTIVE,
        Change.DATA_LOST: Stage.NO_DATA,
        Change.DATA_RETURNED: ACTIVE,
        Change.ACKNOWLEDGED: Stage.ACKNOWLEDGED,
        Change.SILENCED: Stage.SILENCED,
        Change.SILENCE_ENDED: Stage.NO_DATA,
        Change.COMMENTED: Stage.NO_DATA,
        Change.RESOLVED: Stage.RESOLVED,
    },
    # The silence of a run has an alert of its own, so the acknowledged or silenced alert causes no further
    # notification.
    Stage.ACKNOWLEDGED: {
        Change.HELD: Stage.ACKNOWLEDGED,
        Change.RAISED: ACTIVE,
        Change.DATA_LOST: Stage.ACKNOWLEDGED,
        Change.DATA_RETURNED: Stage.ACKNOWLEDGED,
        Change.ACKNOWLEDGED: Stage.ACKNOWLEDGED,
        Change.SILENCED: Stage.SILENCED,
        Change.SILENCE_ENDED: Stage.ACKNOWLEDGED,
        Change.COMMENTED: Stage.ACKNOWLEDGED,
        Change.RESOLVED: Stage.RESOLVED,
    },
    Stage.SILENCED: {
        Change.HELD: Stage.SILENCED,
        Change.RAISED: Stage.SILENCED,  # if the silence does not cover the new severity, it ends next
        Change.DATA_LOST: Stage.SILENCED,
        Change.DATA_RETURNED: Stage.SILENCED,
        Change.ACKNOWLEDGED: Stage.SILENCED,
        Change.SILENCED: Stage.SILENCED,
        Change.SILENCE_ENDED: ACTIVE,
        Change.COMMENTED: Stage.SILENCED,
        Change.RESOLVED: Stage.RESOLVED,
    },
    Stage.RESOLVED: _SAME_FOR_RESOLVED,
}


def next_stage(stage: Stage, change: Change, *, is_acknowledged: bool, is_silenced: bool) -> Stage:
    """Return the stage of an alert after a change.

    Args:
        stage: The stage before.
        change: The change.
        is_acknowledged: Whether an acknowledgement of its severity holds after the change.
        is_silenced: Whether a silence covers it after the change.
    """
    following = NEXT_STAGE[stage][change]
    if following is not ACTIVE:
        return following
    if is_silenced:
        return Stage.SILENCED
    return Stage.ACKNOWLEDGED if is_acknowledged else Stage.FIRING


def advance(alert: Alert, change: Change, **fields: Any) -> Alert:  # noqa: ANN401 - of any field of an alert
    """Return an alert after a change that also sets some of its fields."""
    altered = replace(alert, **fields)
    stage = next_stage(
        Stage(alert.stage),
        change,
        is_acknowledged=altered.acknowledged_at is not None,
        is_silenced=altered.silence_id is not None,
    )
    # For readers that support only three states, `firing` is every state in which the alert is found and not pending.
    state = str(stage) if stage in (Stage.PENDING, Stage.RESOLVED) else "firing"
    return replace(altered, stage=str(stage), state=state)


def is_taken_back(*, kind: str, severity_step: int, last_step: int, resolved_step: int | None) -> bool:
    """Return whether an alert ended because its run went back, so that the steps on which it rests no longer count.

    A finding of a detector is never resolved at the step at which it was found, unless the run repeats this step. The
    clock, rules and the collector's own checks can resolve an alert at that step without a rewind. So can a run that
    was quarantined before its first step, by making this step.

    Args:
        kind: The kind of the alert.
        severity_step: The step since which it has its severity.
        last_step: The newest step at which it was found.
        resolved_step: The step at which it ended; None while it is open.
    """
    if resolved_step is None or resolved_step > severity_step:
        return False
    return resolved_step < last_step or kind in ALERT_KINDS - {MONITOR_DEGRADED}


def was_taken_back(alert: Alert) -> bool:
    """Return `is_taken_back` of an alert."""
    return is_taken_back(
        kind=alert.kind,
        severity_step=alert.severity_step,
        last_step=alert.last_step,
        resolved_step=alert.resolved_step,
    )
