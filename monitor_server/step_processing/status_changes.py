"""Writes a change of a run's status, which the passage of time can cause, with its effects on the run's alerts."""

from typing import Final

from monitor_server.alerts.liveness import TimeUnheard, is_clock_kind, silent_run_findings
from monitor_server.settings import Deadlines
from monitor_server.step_processing.run_context import RunContext
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.run_status import SILENT
from monitor_server.store.repositories.runs import Run

__all__ = ["REFUSED_SECONDS", "change_status", "due_status", "held_status"]

# A trainer that was refused tries again within a minute, and then it may send for some time before its step is stored.
REFUSED_SECONDS: Final = 120.0


def due_status(run: Run, status: str, *, has_more: bool) -> str:
    """Return the status that a run is to be changed to, by the one of its times; often the announced one.

    A run whose steps wait to be projected has not stalled. Those of a quarantined run may wait for days, during which
    its trainer may be lost and return.
    """
    if status != "stalled" or not has_more:
        return status
    return run.announced if run.quarantined_at is None else "running"


def held_status(run: Run, status: str) -> str:
    """Return the status of a run whose trainer was perhaps refused until now: no more silent than the announced one."""
    if status not in SILENT or run.announced == "lost":
        return status
    return "stalled" if run.announced == "stalled" else "running"


def change_status(context: RunContext, status: str, *, deadlines: Deadlines) -> None:
    """Change a run and its alerts to a status that differs from the last announced one."""
    run = context.run
    context.add_alerts(_mark_data(context, status))
    run.announced = status
    step = run.last_step or 0
    findings = silent_run_findings(
        status,
        step=step,
        silence=_silence(context),
        stall_seconds=run.stall_seconds,
        lost_factor=deadlines.lost_factor,
    )
    context.add_alerts(
        context.alerts.reconcile(findings, phase=run.phase, step=step, now=context.now, concerns=is_clock_kind)
    )


def _mark_data(context: RunContext, status: str) -> list[Alert]:
    """Note in the alerts of a run, before its status changes, whether its steps still arrive."""
    was_silent, is_silent = (each in SILENT for each in (context.run.announced, status))
    if was_silent == is_silent:
        return []
    seconds = _silence(context).without_step
    why = f"the run is {status}: no step for {seconds:.0f} s" if is_silent else f"the run is {status}"
    return context.alerts.mark_data(is_lost=is_silent, why=why, now=context.now)


def _silence(context: RunContext) -> TimeUnheard:
    run = context.run
    return TimeUnheard.of(now=context.now, last_seen=run.last_seen, last_step_at=run.last_step_at)
