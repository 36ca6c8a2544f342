"""The phase of a run, from the findings that hold. It knows no signal's arithmetic, only what is being observed."""

from collections.abc import Mapping, Sequence

from monitor_server.detection.base import finite
from monitor_server.detection.protocol import Finding, Phase, Severity
from monitor_server.detection.stateful import Stateful

__all__ = ["PhaseMachine"]

LIKELIHOOD_SIDE = ("entropy/paired_delta", "likelihood/correct", "entropy/mean")
WARMUP_ROWS = 12
STALE_ROWS = 5
# What a finding says about the phase, the worst first.
SIGNS = (
    (("non_finite", Severity.CRITICAL), Phase.COLLAPSED),
    (("run_collapsed", Severity.CRITICAL), Phase.COLLAPSED),
    (("death_spiral", Severity.CRITICAL), Phase.ACCELERATION),
    (("likelihood_drift", Severity.WARNING), Phase.DECAY),
    (("likelihood_drift", Severity.INFO), Phase.DECAY),
    (("likelihood_stagnation", Severity.INFO), Phase.STAGNATION),
)


class PhaseMachine(Stateful):
    """Turns findings into one phase; hysteresis and latching live in the detectors that give them.

    Collapsed before acceleration before decay before stagnation; a run is healthy only while something on the
    likelihood side has been observed within the last 5 rows, and unknown otherwise.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.stale = STALE_ROWS + 1

    def update(self, signals: Mapping[str, float], findings: Sequence[Finding]) -> Phase:
        """Take one step's signals and findings and give the phase."""
        self.rows += 1
        seen = any(finite(signals, name) is not None for name in LIKELIHOOD_SIDE)
        self.stale = 0 if seen else self.stale + 1
        held = {(finding.kind, finding.severity) for finding in findings}
        for sign, phase in SIGNS:
            if sign in held and not (phase is Phase.STAGNATION and self.stale > STALE_ROWS):
                return phase
        if self.rows <= WARMUP_ROWS:
            return Phase.WARMUP
        return Phase.HEALTHY if self.stale <= STALE_ROWS else Phase.UNKNOWN
