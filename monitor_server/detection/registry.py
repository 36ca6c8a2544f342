"""Which detectors run, by name. One detector a file; to add one, add it here and give it a page in docs/detectors."""

from monitor_server.detection.base import StreamDetector
from monitor_server.detection.death_spiral import DeathSpiral
from monitor_server.detection.likelihood_drift import LikelihoodDrift
from monitor_server.detection.non_finite import NonFinite
from monitor_server.detection.paired_drift import PairedDrift
from monitor_server.detection.run_collapsed import RunCollapsed
from monitor_server.detection.stagnation import Stagnation

__all__ = ["DETECTORS"]

DETECTORS: dict[str, type[StreamDetector]] = {
    "non_finite": NonFinite,
    "run_collapsed": RunCollapsed,
    "death_spiral": DeathSpiral,
    "paired_drift": PairedDrift,
    "likelihood_drift": LikelihoodDrift,
    "stagnation": Stagnation,
}
