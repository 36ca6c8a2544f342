"""The phase of a run, from the findings that hold. It knows no signal's arithmetic, only what is being observed."""

from collections.abc import Mapping, Sequence

from monitor_server.detection.parts.base import finite
from monitor_server.detection.parts.stateful import Stateful
from monitor_server.detection.protocol import Capability, Finding, Phase, Severity

__all__ = ["PhaseMachine"]

# What must be observed for which capability, the best first.
CAPABILITIES = {
    Capability.PAIRED: ("entropy/paired_delta",),
    Capability.LIKELIHOOD: ("likelihood/correct", "entropy/mean"),
    Capability.ENTROPY: ("entropy/mean",),
}
LIKELIHOOD_SIDE = tuple(dict.fromkeys(name for names in CAPABILITIES.values() for name in names))
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
        self.unheard = dict.fromkeys(LIKELIHOOD_SIDE, STALE_ROWS + 1)  # rows since each was observed

    def update(self, signals: Mapping[str, float], findings: Sequence[Finding]) -> Phase:
        """Take one step's signals and findings and give the phase."""
        self.rows += 1
        for name, rows in self.unheard.items():
            self.unheard[name] = 0 if finite(signals, name) is not None else rows + 1
        is_stale = min(self.unheard.values()) > STALE_ROWS
        held = {(finding.kind, finding.severity) for finding in findings}
        for sign, phase in SIGNS:
            if sign in held and not (phase is Phase.STAGNATION and is_stale):
                return phase
        if self.rows <= WARMUP_ROWS:
            return Phase.WARMUP
        return Phase.UNKNOWN if is_stale else Phase.HEALTHY

    @property
    def capability(self) -> Capability:
        """The best that was observed within the last 5 rows."""
        for capability, names in CAPABILITIES.items():
            if all(self.unheard[name] <= STALE_ROWS for name in names):
                return capability
        return Capability.METRICS
