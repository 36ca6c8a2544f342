"""Which detectors run, by name. One detector a file; to add one, add it here and give it a page in docs/detectors."""

from monitor_server.detection.base import StreamDetector
from monitor_server.detection.clip_surge import ClipSurge
from monitor_server.detection.death_spiral import DeathSpiral
from monitor_server.detection.entropy_collapse import EntropyCollapse
from monitor_server.detection.entropy_explosion import EntropyExplosion
from monitor_server.detection.joint_departure import JointDeparture
from monitor_server.detection.likelihood_drift import LikelihoodDrift
from monitor_server.detection.loss_explosion import LossExplosion
from monitor_server.detection.non_finite import NonFinite
from monitor_server.detection.paired_drift import PairedDrift
from monitor_server.detection.reward_fall import RewardFall
from monitor_server.detection.run_collapsed import RunCollapsed
from monitor_server.detection.sampler_mismatch import SamplerMismatch
from monitor_server.detection.stagnation import Stagnation

__all__ = ["DETECTORS"]

DETECTORS: dict[str, type[StreamDetector]] = {
    "non_finite": NonFinite,
    "run_collapsed": RunCollapsed,
    "death_spiral": DeathSpiral,
    "paired_drift": PairedDrift,
    "likelihood_drift": LikelihoodDrift,
    "stagnation": Stagnation,
    "clip_surge": ClipSurge,
    "entropy_collapse": EntropyCollapse,
    "entropy_explosion": EntropyExplosion,
    "joint_departure": JointDeparture,
    "loss_explosion": LossExplosion,
    "reward_fall": RewardFall,
    "sampler_mismatch": SamplerMismatch,
}
