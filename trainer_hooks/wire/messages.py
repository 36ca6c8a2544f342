"""The messages: a batch of a rank's records, and the collector's receipt."""

import math
from typing import Annotated, Any, Final, Literal

import msgspec

from trainer_hooks.wire.arrays import Wire
from trainer_hooks.wire.kinds import Severity
from trainer_hooks.wire.summaries import Summary

__all__ = [
    "CAPABILITY_LEVELS",
    "MAX_FORKS",
    "RUN_ENDS",
    "Action",
    "ActionOutcome",
    "ActionReport",
    "ActionRequest",
    "AlertNotice",
    "Batch",
    "Capability",
    "ForkResult",
    "LeftOut",
    "Receipt",
    "Record",
    "Rejection",
    "ReportedAction",
    "RunEnd",
]

CAPABILITY_LEVELS = ("L0", "L1", "L2", "L3", "L4")
RUN_ENDS = ("finished", "stopped")

Capability = Literal["L0", "L1", "L2", "L3", "L4"]
RunEnd = Literal["finished", "stopped"]
Action = Literal["notify", "checkpoint", "skip_update", "stop", "rollback", "enable_llds"]
ReportedAction = Literal[Action, "fork"]
MAX_FORKS: Final = 16  # a decoder refuses more before it decodes them
ActionOutcome = Literal["taken", "dry_run", "refused", "received"]


class ForkResult(Wire, frozen=True):
    """One fork of a run, a short training from a healthy checkpoint, as measured on held-out contexts.

    ``reward`` is its mean, ``displacement`` and ``entropy`` are mean changes since that checkpoint in nats a token.
    ``…_gain`` are the difference to the unchanged fork with its 95 % interval: low, mean, high. A fork that
    ``has_diverged`` may have numbers that are not finite.
    """

    name: str
    steps: int
    is_winner: bool = False
    has_diverged: bool = False
    reward: float = math.nan
    reward_gain: tuple[float, float, float] = (-math.inf, math.nan, math.inf)
    displacement: float = math.nan
    displacement_gain: tuple[float, float, float] = (-math.inf, math.nan, math.inf)
    entropy: float = math.nan


class ActionReport(Wire, frozen=True):
    """An action of a trainer about an alert, taken or not; ``refused`` is an action that is impossible or forbidden.

    If a person has asked for the action, ``request_id`` names the request; the trainer reports ``received`` before it
    acts. ``forks`` are the forks that a trainer has tried (action ``fork``).
    """

    action: ReportedAction
    alert_id: str
    outcome: ActionOutcome
    reason: str
    detail: str = ""
    request_id: str | None = None
    forks: Annotated[list[ForkResult], msgspec.Meta(max_length=MAX_FORKS)] = []


class Record(Wire, frozen=True):
    """The measurements of one rank at one optimiser step.

    ``scalars`` hold one number for the whole step; the value of rank 0 counts. ``summaries`` hold this rank's share and
    are merged over ranks. ``seq`` identifies a rank's records within an attempt. It increases, and begins with a higher
    number at each start of the process, because several processes may share an attempt. If it is left out, it is the
    step. ``responses`` are a few of the rank's responses; each stays raw until it is validated separately.
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
    """A rank's records and the run that they belong to. Each record stays raw until it is validated separately.

    The presence of ``config`` also means that the rank's process has started. A run that had ended in this attempt is
    then running again. It is also running again if the rank that has sent ``end`` sends later records.
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
    """One refused record: its index in the batch, and the reason."""

    index: int
    error: str
    detail: str


class LeftOut(Wire, frozen=True, forbid_unknown_fields=False):
    """How many signals were left out of accepted records, because their run has reached its limit of signal names."""

    signals: int
    detail: str


class AlertNotice(Wire, frozen=True, forbid_unknown_fields=False):
    """An alert that is firing on the run, as sent to the trainer."""

    id: str
    kind: str
    severity: Severity
    opened_step: int
    summary: str


class ActionRequest(Wire, frozen=True, forbid_unknown_fields=False):
    """An action that a person asks the trainer for; a trainer that was not set up for the action refuses.

    ``action`` is any text, because a newer collector may ask for an action that this version does not know.
    ``seconds_left`` states how long the request holds from the time of the receipt; older collectors leave it out.
    """

    id: str
    action: str
    by: str
    alert: AlertNotice
    seconds_left: float | None = None


class Receipt(Wire, frozen=True, forbid_unknown_fields=False):
    """The collector's answer, sent only after the accepted records are committed.

    Unknown fields are ignored: a newer collector may send more, and a running trainer cannot be upgraded.

    ``refused_responses`` counts sampled responses that were malformed or too many; their records are accepted.
    ``left_out`` counts signals that were left out of accepted records. ``passed`` are alerts that fired within the last
    minutes and have been resolved. They are repeated for the same minutes, because the trainer may have received no
    receipt meanwhile.
    ``newest_attempt`` is the newest attempt of the run where it is higher than the batch's; detection then ignores the
    batch. ``phase`` is the phase at ``judged_step``, the newest step of the batch's attempt that detection has
    processed. Both are left out before the first such step. ``requests`` are repeated until the trainer has answered.
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
    requests: list[ActionRequest] = []
    left_out: LeftOut | None = None
    passed: list[AlertNotice] = []
