"""Quarantines a run that cannot be projected, so that the other runs continue."""

from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.alerts.changes.transitions import RecordTransitions
from monitor_server.alerts.kinds import MONITOR_DEGRADED
from monitor_server.detection.protocol import Finding, Severity
from monitor_server.settings import Deadlines
from monitor_server.step_processing.events import Event
from monitor_server.step_processing.run_context import RunContext
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.runs import Run
from monitor_server.text_safety.printable import printable

__all__ = ["QUARANTINE_SECONDS", "is_in_quarantine", "quarantine"]

QUARANTINE_SECONDS = 600.0
MAX_DETAIL = 1_000  # characters of an error's message


def is_in_quarantine(run: Run, now: float) -> bool:
    """Whether a run is quarantined and is not tried again yet."""
    return run.quarantined_at is not None and now - run.quarantined_at < QUARANTINE_SECONDS


def quarantine(
    repositories: Repositories,
    run_id: str,
    error: Exception,
    *,
    now: float,
    deadlines: Deadlines,
    record_transitions: RecordTransitions,
) -> list[Event]:
    """Quarantine a run that cannot be projected; its records are stored, and other runs are not affected.

    Args:
        repositories: The store, in a transaction.
        run_id: The run.
        error: The reason for which it cannot be projected.
        now: In seconds since the epoch.
        deadlines: They determine the status of the run.
        record_transitions: Writes the notifications that are due about the alert.

    Returns:
        The events to publish after the commit.
    """
    run = repositories.runs.lock(run_id)
    if run is None:
        return []
    # Bytes of a damaged record may be in the message, and PostgreSQL stores no NUL.
    detail = printable(error, longest=MAX_DETAIL)
    run.quarantined_at, run.quarantine_reason = now, f"{type(error).__name__}: {detail}"
    context = RunContext(
        repositories=repositories,
        run=run,
        alerts=Lifecycle(repositories.alerts.open(run.id), run.id),
        positions={},
        now=now,
        is_watched=True,
    )
    step = run.last_step or 0
    finding = Finding(
        kind=MONITOR_DEGRADED,
        severity=Severity.CRITICAL,
        step=step,
        score=1.0,
        threshold=0.0,
        summary=(
            f"this run cannot be processed after step {step} ({type(error).__name__}): its records are stored, no "
            f"detector sees them; it is tried again every {QUARANTINE_SECONDS / 60:.0f} minutes and after a reset"
        ),
        evidence={"error": type(error).__name__, "detail": detail, "position": run.position},
    )
    changed = context.alerts.reconcile(
        [finding], phase=run.phase, step=step, now=now, concerns=lambda kind: kind == MONITOR_DEGRADED
    )
    context.alerts.save(repositories, now=now)
    record_transitions(repositories, run, context.alerts.transitions)
    context.add_alerts([context.alerts.as_saved(alert) for alert in changed])
    repositories.runs.save_projection(run)
    context.add_run(repositories, deadlines)
    return context.events
