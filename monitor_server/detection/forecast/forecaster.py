"""The forecaster of one run: it reads the evidence of each row and uses the model for the run's observed signals."""

from collections.abc import Mapping, Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.forecast.evidence import Evidence
from monitor_server.detection.forecast.hazard import model_for
from monitor_server.detection.protocol import DriftInput, Finding, Forecast, Phase

__all__ = ["Forecaster"]


class Forecaster(Evidence):
    """Computes P(collapse within 10, 25 and 50 rows) after each row; its state is constant in memory."""

    def forecast(
        self,
        finite: Mapping[str, float],
        detectors: Mapping[str, StreamDetector],
        findings: Sequence[Finding],
        phase: Phase,
        drift_input: DriftInput,
    ) -> Forecast | None:
        """Process one row and return its forecast, or None if the run has already collapsed."""
        self.follow(finite, detectors, findings)
        if phase is Phase.COLLAPSED:
            return None
        model = model_for(drift_input, observes_ratios=self.ratios.is_observed)
        return model.forecast(self.read(detectors, findings)) if model.weighs else model.unaided
