"""What to check first about an alert without a known remedy, such as one whose cause is outside the training."""

from typing import Final

from monitor_server.alerts.kinds import MONITOR_DEGRADED
from monitor_server.alerts.liveness import LOST, STALE

__all__ = ["first_steps"]

FIRST_STEPS: Final = {
    STALE: "check whether the trainer lives, is stuck (py-spy dump shows where) or cannot reach the collector (its log "
    "says so). See the runbook GRPOTelemetryStale.",
    LOST: "check whether the job ran out of memory, was preempted or lost its machine, and resume it from its last "
    "checkpoint. If the run is given up, acknowledge the alert. See the runbook GRPOTrainerLost.",
    MONITOR_DEGRADED: "read the traceback in the collector's log: no detector watches this run until it is processed "
    "again. `rlvitals runs --reset ID` tries a run again at once. See the runbook RlvitalsRunQuarantined.",
}


def first_steps(kind: str) -> str:
    """Return what a reader of a message checks first, in sentences that follow a colon."""
    return FIRST_STEPS.get(kind, "look at the evidence; no remedy is known for this kind.")
