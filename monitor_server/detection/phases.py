"""The phase of a run, derived from the findings that hold and from the observed signals."""

from collections.abc import Mapping, Sequence

from monitor_server.detection.detector_parts.coverage import Coverage
from monitor_server.detection.protocol import DriftInput, Finding, Phase, Severity
from monitor_server.detection.statistics.state import Stateful

__all__ = ["PhaseMachine"]

# The signals that each drift input needs, the best one first.
PAIRED = "entropy/paired_delta"
DRIFT_INPUTS = {
    DriftInput.PAIRED: (PAIRED,),
    DriftInput.LIKELIHOOD: ("likelihood/correct", "entropy/mean"),
    DriftInput.ENTROPY: ("entropy/mean",),
}
LIKELIHOOD_SIDE = tuple(dict.fromkeys(name for names in DRIFT_INPUTS.values() for name in names))
WARMUP_ROWS = 12
STALE_ROWS = 5
# The phase that a finding implies, the worst first.
IMPLIED_PHASES = (
    ("non_finite", Severity.CRITICAL, Phase.COLLAPSED),
    ("run_collapsed", Severity.CRITICAL, Phase.COLLAPSED),
    ("death_spiral", Severity.CRITICAL, Phase.ACCELERATION),
    ("likelihood_drift", Severity.WARNING, Phase.DECAY),
    ("likelihood_drift", Severity.INFO, Phase.DECAY),
    ("likelihood_stagnation", Severity.INFO, Phase.STAGNATION),
)


class PhaseMachine(Stateful):
    """Turns findings into one phase; the detectors implement hysteresis and latching.

    Collapsed has precedence over acceleration, decay and stagnation, in this order. A run is healthy only while a
    signal of the likelihood side has been observed within the last 5 rows, and unknown otherwise.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.unheard = dict.fromkeys(LIKELIHOOD_SIDE, STALE_ROWS + 1)  # rows since each was observed
        self.coverage = Coverage()  # of the paired channel

    def update(self, finite: Mapping[str, float], findings: Sequence[Finding]) -> Phase:
        """Process one step's signals and findings, one of each kind, and return the phase."""
        self.rows += 1
        self.coverage.update(PAIRED in finite)
        unheard, is_stale = self.unheard, True
        for name in LIKELIHOOD_SIDE:
            rows = unheard[name] = 0 if name in finite else unheard[name] + 1
            if rows <= STALE_ROWS:
                is_stale = False
        if findings:
            held = {finding.kind: finding.severity for finding in findings}
            for kind, severity, phase in IMPLIED_PHASES:
                if held.get(kind) is severity and not (phase is Phase.STAGNATION and is_stale):
                    return phase
        if self.rows <= WARMUP_ROWS:
            return Phase.WARMUP
        return Phase.UNKNOWN if is_stale else Phase.HEALTHY

    def take_back(self, rows: int, left: int) -> None:
        """Count the rows that are left."""
        super().take_back(rows, left)
        self.rows = min(self.rows, left)

    @property
    def drift_input(self) -> DriftInput:
        """The best drift input whose signals were all observed within the last 5 rows; pairs must be in most rows."""
        unheard = self.unheard
        for drift_input, names in DRIFT_INPUTS.items():
            if drift_input is DriftInput.PAIRED and not self.coverage.is_dense:
                continue
            for name in names:
                if unheard[name] > STALE_ROWS:
                    break
            else:
                return drift_input
        return DriftInput.METRICS
