"""Alerts of silent runs: a run that makes no step, and a trainer that sends nothing at all.

`monitor_server.store.repositories.run_status` decides which runs are silent, for readers and for the projector alike.
"""

from dataclasses import dataclass
from typing import Self

from monitor_server.detection.protocol import Finding, Phase, Severity

__all__ = ["LOST", "STALE", "TimeUnheard", "is_clock_kind", "shown_phase", "silent_run_findings"]

STALE = "telemetry_stale"
LOST = "trainer_lost"


@dataclass(frozen=True, slots=True)
class TimeUnheard:
    """The time for which nothing was heard of a run.

    Attributes:
        unheard: Seconds since its trainer's last message.
        without_step: Seconds since its last step arrived.
    """

    unheard: float
    without_step: float

    @classmethod
    def of(cls, *, now: float, last_seen: float, last_step_at: float) -> Self:
        """Measure it. A step that is processed late arrived with a message, so no later than the last message."""
        unheard = now - last_seen
        return cls(unheard=unheard, without_step=max(unheard, now - last_step_at))


def is_clock_kind(kind: str) -> bool:
    """Return whether the clock finds alerts of this kind, and not the detectors."""
    return kind in (STALE, LOST)


def shown_phase(status: str, phase: str, *, is_quarantined: bool) -> Phase:
    """Return the phase that readers see: a run that is silent or not processed has none, unless it had collapsed."""
    is_blind = (is_quarantined or status in ("stalled", "lost")) and phase != Phase.COLLAPSED
    return Phase.UNKNOWN if is_blind else Phase.read(phase)


def silent_run_findings(
    status: str, *, step: int, silence: TimeUnheard, stall_seconds: float, lost_factor: float
) -> list[Finding]:
    """Return the findings for a run of this status; there are none while it makes steps or has ended."""
    stale = _finding(
        STALE, Severity.WARNING, step, silence.without_step, threshold=stall_seconds, what="no step", last="step"
    )
    lost = _finding(
        LOST,
        Severity.CRITICAL,
        step,
        silence.unheard,
        threshold=lost_factor * stall_seconds,
        what="nothing",
        last="message",
    )
    return {"stalled": [stale], "lost": [stale, lost]}.get(status, [])


def _finding(
    kind: str, severity: Severity, step: int, seconds: float, *, threshold: float, what: str, last: str
) -> Finding:
    return Finding(
        kind=kind,
        severity=severity,
        step=step,
        score=seconds,
        threshold=threshold,
        summary=f"{what} from the trainer for {seconds:.0f} s; expected within {threshold:.0f} s",
        evidence={"statistic": seconds, "threshold": threshold, "window": f"seconds since the last {last}"},
    )
