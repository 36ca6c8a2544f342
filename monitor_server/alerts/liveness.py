"""Alerts of silent runs: a run that makes no step, and a trainer that sends nothing at all.

`monitor_server.store.repositories.run_status` decides which runs are silent, for readers and for the projector alike.
"""

from monitor_server.detection.protocol import Finding, Phase, Severity

__all__ = ["LOST", "STALE", "is_clock_kind", "shown_phase", "silent_run_findings"]

STALE = "telemetry_stale"
LOST = "trainer_lost"


def is_clock_kind(kind: str) -> bool:
    """Return whether alerts of this kind are found by the clock rather than by the detectors."""
    return kind in (STALE, LOST)


def shown_phase(status: str, phase: str) -> Phase:
    """Return the phase that readers see: that of a silent run is no longer known, unless the run had collapsed."""
    is_silent = status in ("stalled", "lost") and phase != Phase.COLLAPSED
    return Phase.UNKNOWN if is_silent or phase not in set(Phase) else Phase(phase)


def silent_run_findings(
    status: str, *, step: int, silent_seconds: float, stall_seconds: float, lost_factor: float
) -> list[Finding]:
    """Return the findings for a run of this status; none while it makes steps or has ended."""
    stale = _finding(STALE, Severity.WARNING, step, silent=silent_seconds, threshold=stall_seconds, what="no step")
    lost = _finding(
        LOST, Severity.CRITICAL, step, silent=silent_seconds, threshold=lost_factor * stall_seconds, what="nothing"
    )
    return {"stalled": [stale], "lost": [stale, lost]}.get(status, [])


def _finding(kind: str, severity: Severity, step: int, *, silent: float, threshold: float, what: str) -> Finding:
    return Finding(
        kind=kind,
        severity=severity,
        step=step,
        score=silent,
        threshold=threshold,
        summary=f"{what} from the trainer for {silent:.0f} s; expected within {threshold:.0f} s",
        evidence={"statistic": silent, "threshold": threshold, "window": "seconds since the last step"},
    )
