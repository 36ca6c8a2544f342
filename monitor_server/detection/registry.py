"""The detectors that run, by name, one in each file. To add one, add it here and write its page in docs/detectors."""

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.detector_parts.mechanisms import SharedMechanisms
from monitor_server.detection.detectors.accuracy_loss import AccuracyLoss
from monitor_server.detection.detectors.advantage_order import AdvantageOrder
from monitor_server.detection.detectors.all_truncated import AllTruncated
from monitor_server.detection.detectors.attention_collapse import AttentionCollapse
from monitor_server.detection.detectors.clip_surge import ClipSurge
from monitor_server.detection.detectors.constant_likelihood import ConstantLikelihood
from monitor_server.detection.detectors.control_spike import ControlSpike
from monitor_server.detection.detectors.control_tokens import ControlTokens
from monitor_server.detection.detectors.dead_environment import MOVES, DeadEnvironment
from monitor_server.detection.detectors.death_spiral import DeathSpiral
from monitor_server.detection.detectors.entropy_collapse import EntropyCollapse
from monitor_server.detection.detectors.entropy_explosion import EntropyExplosion
from monitor_server.detection.detectors.equal_rewards import EqualRewards
from monitor_server.detection.detectors.frozen_ratio import FrozenRatio
from monitor_server.detection.detectors.garbled_text import GarbledText
from monitor_server.detection.detectors.gradient_explosion import GradientExplosion
from monitor_server.detection.detectors.gradient_spike import GradientSpike
from monitor_server.detection.detectors.impossible_likelihood import ImpossibleLikelihood
from monitor_server.detection.detectors.instrument_gap import InstrumentGap
from monitor_server.detection.detectors.joint_departure import JointDeparture
from monitor_server.detection.detectors.kl_runaway import KlRunaway
from monitor_server.detection.detectors.length_fall import LengthFall
from monitor_server.detection.detectors.length_rise import LengthRise
from monitor_server.detection.detectors.likelihood_drift import LikelihoodDrift
from monitor_server.detection.detectors.loss_explosion import LossExplosion
from monitor_server.detection.detectors.mismatch_growth import MismatchGrowth
from monitor_server.detection.detectors.non_finite import COUNTER, NonFinite
from monitor_server.detection.detectors.off_policy import OffPolicy
from monitor_server.detection.detectors.paired_drift import PairedDrift
from monitor_server.detection.detectors.plateau import Plateau
from monitor_server.detection.detectors.rate_rise import RateRise
from monitor_server.detection.detectors.ratio_tail import RatioTail
from monitor_server.detection.detectors.repetition import Repetition
from monitor_server.detection.detectors.reward_detachment import RewardDetachment
from monitor_server.detection.detectors.reward_fall import RewardFall
from monitor_server.detection.detectors.reward_hacking import RewardHacking
from monitor_server.detection.detectors.reward_leap import RewardLeap
from monitor_server.detection.detectors.reward_loss import RewardLoss
from monitor_server.detection.detectors.router_collapse import RouterCollapse
from monitor_server.detection.detectors.run_collapsed import RunCollapsed
from monitor_server.detection.detectors.sampler_gap import SamplerGap
from monitor_server.detection.detectors.sampler_mismatch import SamplerMismatch
from monitor_server.detection.detectors.silent_groups import SilentGroups
from monitor_server.detection.detectors.stagnation import Stagnation
from monitor_server.detection.detectors.stale_responses import StaleResponses
from monitor_server.detection.detectors.sudden_silence import SuddenSilence
from monitor_server.detection.detectors.tool_use_collapse import ToolUseCollapse
from monitor_server.detection.detectors.truncation import Truncation
from monitor_server.detection.detectors.unmasked_feedback import UnmaskedFeedback
from monitor_server.detection.detectors.verdict_decline import VerdictDecline
from monitor_server.detection.detectors.verdict_gap import VerdictGap
from monitor_server.detection.detectors.zero_rate import ZeroRate
from monitor_server.detection.protocol import SEEN_SHARE

__all__ = ["DETECTORS", "READ_SIGNALS", "build_detectors"]

DETECTORS: dict[str, type[StreamDetector]] = {
    "non_finite": NonFinite,
    "run_collapsed": RunCollapsed,
    "paired_drift": PairedDrift,
    "likelihood_drift": LikelihoodDrift,
    "death_spiral": DeathSpiral,
    "stagnation": Stagnation,
    "clip_surge": ClipSurge,
    "entropy_collapse": EntropyCollapse,
    "entropy_explosion": EntropyExplosion,
    "joint_departure": JointDeparture,
    "loss_explosion": LossExplosion,
    "reward_fall": RewardFall,
    "reward_loss": RewardLoss,
    "accuracy_loss": AccuracyLoss,
    "advantage_order": AdvantageOrder,
    "sampler_mismatch": SamplerMismatch,
    "tool_use_collapse": ToolUseCollapse,
    "control_tokens": ControlTokens,
    "repetition": Repetition,
    "garbled_text": GarbledText,
    "kl_runaway": KlRunaway,
    "rate_rise": RateRise,
    "mismatch_growth": MismatchGrowth,
    "length_rise": LengthRise,
    "length_fall": LengthFall,
    "silent_groups": SilentGroups,
    "sudden_silence": SuddenSilence,
    "verdict_gap": VerdictGap,
    "verdict_decline": VerdictDecline,
    "router_collapse": RouterCollapse,
    "attention_collapse": AttentionCollapse,
    "gradient_explosion": GradientExplosion,
    "gradient_spike": GradientSpike,
    "off_policy": OffPolicy,
    "stale_responses": StaleResponses,
    "reward_hacking": RewardHacking,
    "reward_detachment": RewardDetachment,
    "reward_leap": RewardLeap,
    "control_spike": ControlSpike,
    "dead_environment": DeadEnvironment,
    "ratio_tail": RatioTail,
    "truncation": Truncation,
    "plateau": Plateau,
    "frozen_ratio": FrozenRatio,
    "sampler_gap": SamplerGap,
    "zero_rate": ZeroRate,
    "impossible_likelihood": ImpossibleLikelihood,
    "constant_likelihood": ConstantLikelihood,
    "unmasked_feedback": UnmaskedFeedback,
    "equal_rewards": EqualRewards,
    "all_truncated": AllTruncated,
    "instrument_gap": InstrumentGap,
}


# Signals that detectors read in addition to their inputs.
_OTHER_READ_SIGNALS = (COUNTER, "reward/all_correct_frac", "reward/all_wrong_frac", SEEN_SHARE)

READ_SIGNALS = frozenset(name for detector in DETECTORS.values() for name in detector.reads).union(_OTHER_READ_SIGNALS)
"""Every signal that detection reads."""


def build_detectors() -> dict[str, StreamDetector]:
    """Build one fresh detector of each name, in the order in which they must be updated.

    The death spiral reads the two drift detectors. The joint departure and the dead environment read the mechanisms of
    the collapsed run, and the dead environment also reads the fall of the reward. The detectors that they read come
    earlier, so that each is computed once.
    """
    run_collapsed, paired_drift, likelihood_drift = RunCollapsed(), PairedDrift(), LikelihoodDrift()
    mechanisms, reward_fall = run_collapsed.mechanisms, RewardFall()
    shared: dict[str, StreamDetector] = {
        "run_collapsed": run_collapsed,
        "paired_drift": paired_drift,
        "likelihood_drift": likelihood_drift,
        "death_spiral": DeathSpiral(paired_drift, likelihood_drift),
        "joint_departure": JointDeparture(SharedMechanisms(mechanisms)),
        "reward_fall": reward_fall,
        "dead_environment": DeadEnvironment(SharedMechanisms(mechanisms, only=MOVES), reward_fall.departure),
    }
    return {name: shared.get(name) or detector() for name, detector in DETECTORS.items()}
