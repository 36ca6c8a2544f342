"""Alerts about the collector itself. They are listed among those of runs, and belong to a run of their own."""

from collections.abc import Callable, Sequence
from typing import Final

from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.detection.protocol import Finding, Phase
from monitor_server.errors import DeletionUnderWay
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run
from trainer_hooks import wire

__all__ = ["PROJECT", "RUN", "RUN_ID", "update_collector_alerts"]

PROJECT: Final = "rlvitals"
RUN: Final = "collector"
RUN_ID: Final = wire.run_id(PROJECT, RUN)


def update_collector_alerts(
    repositories: Repositories, findings: Sequence[Finding], *, now: float, concerns: Callable[[str], bool]
) -> list[tuple[Run, Alert]]:
    """Open, update and resolve the alerts about the collector by its findings. No notification is sent for them.

    While their run is being deleted there are none.

    Args:
        repositories: An open transaction.
        findings: The findings that hold, at step 0: the collector makes no steps.
        now: Seconds since the epoch.
        concerns: Whether the findings cover a kind; alerts of other kinds do not change.

    Returns:
        The run and each alert that has changed.
    """
    run = repositories.runs.lock(RUN_ID)
    if run is None:
        if not findings:
            return []
        try:
            run = _add_run(repositories, now)
        except DeletionUnderWay:  # what the findings are about must be stored all the same
            return []
    alerts = Lifecycle(repositories.alerts.open(RUN_ID), RUN_ID)
    changed = alerts.reconcile(findings, phase=str(Phase.UNKNOWN), step=0, now=now, concerns=concerns)
    alerts.save(repositories, now=now)
    if changed:  # the age of the run, after which retention deletes it, is that of its last change
        run.last_seen = now
        repositories.runs.save_ingest(run)
    return [(run, alerts.as_saved(alert)) for alert in changed]


def _add_run(repositories: Repositories, now: float) -> Run:
    """Add a run that has already ended, so that it never counts as silent."""
    run = repositories.runs.add(
        Run(
            id=RUN_ID,
            project=PROJECT,
            name=RUN,
            source="rlvitals",
            capability="L0",
            world_size=1,
            attempt=0,
            started_at=now,
            last_seen=now,
            last_step_at=now,
            stall_seconds=1.0,
            ended="finished",
            announced="finished",
        )
    )
    repositories.attempts.enter(RUN_ID, 0, world_size=1, now=now, position=run.log_end)
    return run
