"""The environment has died under a healthy policy: tools answer errors, or whatever gives the reward is gone."""

from collections.abc import Sequence

from monitor_server.detection.detectors.reward_fall import RewardFall
from monitor_server.detection.parts.base import finite
from monitor_server.detection.parts.departure import Departure, Size
from monitor_server.detection.parts.mechanisms import Mechanisms
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["DeadEnvironment"]

POLICY = ("entropy/paired_delta", "entropy/mean", "kl/old")
TOOLS = "tools/valid_frac"
MOVES = ("entropy", "off-policy")


class DeadEnvironment(ShiftDetector):
    """Warns when the reward falls as `RewardFall` has it, and the policy is observed and did not move.

    A policy that breaks moves: entropy, the distance to the old policy or the sampler gap depart with the reward. Where
    none of them does, look outside. Valid tool calls that fell as well are named among what agrees. With no signal of
    the policy there is no such finding. It cannot be foreseen; an environment that hangs is a stall, told by the clock.
    """

    kind = "dead_environment"
    severity = Severity.WARNING
    reads = ("reward/mean",)
    size = RewardFall.size
    what = "The policy did not move, and the reward"

    def __init__(self) -> None:
        super().__init__()
        self.mechanisms = Mechanisms(only=MOVES)
        self.tools = Departure(Size(factor=0.5, errors=4.0, rows=2))
        self.moved = False
        self.observed = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        self.moved = bool(self.mechanisms.update(observation))
        self.observed = any(finite(observation.signals, name) is not None for name in POLICY)
        valid = finite(observation.signals, TOOLS)
        if valid is not None:
            self.tools.update(valid)
        return super()._observe(observation)

    def _confirmed(self, observation: Observation) -> bool:  # noqa: ARG002 - taken in above
        """Tell whether the policy is seen to stand."""
        return self.observed and not self.moved

    def _agreeing(self) -> list[str]:
        return [TOOLS] if self.tools.departs else []

    def _rebaseline(self) -> None:
        super()._rebaseline()
        self.mechanisms.restart()
        self.tools.restart()
