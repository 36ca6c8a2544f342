"""The messages: a rank's records in a batch, and the collector's receipt."""

from typing import Any, Literal

import msgspec

from trainer_hooks.wire.arrays import Wire
from trainer_hooks.wire.kinds import Severity
from trainer_hooks.wire.summaries import Summary

__all__ = [
    "CAPABILITY_LEVELS",
    "Action",
    "ActionOutcome",
    "ActionReport",
    "AlertNotice",
    "Batch",
    "Capability",
    "Receipt",
    "Record",
    "Rejection",
    "RunEnd",
]

CAPABILITY_LEVELS = ("L0", "L1", "L2", "L3", "L4")

Capability = Literal["L0", "L1", "L2", "L3", "L4"]
RunEnd = Literal["finished", "stopped"]
Action = Literal["notify", "checkpoint", "skip_update", "stop", "rollback", "enable_llds"]
ActionOutcome = Literal["taken", "dry_run", "refused"]


class ActionReport(Wire, frozen=True):
    """What a trainer did about an alert, would have done (``dry_run``), or could not do (``refused``)."""

    action: Action
    alert_id: str
    outcome: ActionOutcome
    reason: str
    detail: str = ""


class Record(Wire, frozen=True):
    """What one rank measured at one optimiser step.

    ``scalars`` hold one number for the whole step (rank 0 speaks for all); ``summaries`` hold this rank's share
    and are merged over ranks. ``seq`` tells a rank's records of an attempt apart, and grows; it counts from a number
    that is higher at each start of the process, which may be several in an attempt. Left out, it is the step.
    ``responses`` are a few of the rank's responses; each stays raw until it is validated alone.
    """

    step: int
    seq: int | None = None
    time: float | None = None
    policy_version: int | None = None
    data_version: str | None = None
    scalars: dict[str, float] = {}
    summaries: dict[str, Summary] = {}
    actions: list[ActionReport] = []
    responses: list[msgspec.Raw] = []


class Batch(Wire, frozen=True):
    """A rank's records, with the run they belong to. Records stay raw until each is validated alone.

    ``config`` also says that the rank's process has started: a run that had ended in this attempt goes on.
    """

    schema_version: int
    run: str
    project: str = "default"
    attempt: int = 1
    rank: int = 0
    world_size: int = 1
    capability: Capability = "L1"
    source: str = ""
    config: dict[str, Any] | None = None
    end: RunEnd | None = None
    records: list[msgspec.Raw] = []


class Rejection(Wire, frozen=True, forbid_unknown_fields=False):
    """One record that was refused: its place in the batch, and why."""

    index: int
    error: str
    detail: str


class AlertNotice(Wire, frozen=True, forbid_unknown_fields=False):
    """An alert that is firing on the run, as told to the trainer."""

    id: str
    kind: str
    severity: Severity
    opened_step: int
    summary: str


class Receipt(Wire, frozen=True, forbid_unknown_fields=False):
    """The collector's answer, given only after what it accepted is committed.

    A newer collector may say more: a trainer that runs cannot be upgraded, and what it does not know it leaves.

    ``refused_responses`` counts sampled responses that were malformed or too many; their records stand.
    ``newest_attempt`` is the run's where it is higher than the batch's, which detection then leaves alone.
    ``phase`` is of ``judged_step``, the newest step of the batch's attempt that detection has taken; both are left out
    before the first.
    """

    run_id: str
    accepted: int
    duplicates: int = 0
    refused_responses: int = 0
    newest_attempt: int | None = None
    rejected: list[Rejection] = []
    phase: str = "unknown"
    judged_step: int | None = None
    alerts: list[AlertNotice] = []
