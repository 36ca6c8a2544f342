"""Dead environment: tools return errors, or the source of the reward has failed, while the policy is healthy."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.readings import first_finite
from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.detector_parts.mechanisms import Mechanisms, SharedMechanisms
from monitor_server.detection.detectors.reward_fall import RewardFall
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.departure import Departure, Size

__all__ = ["MOVES", "DeadEnvironment"]

POLICY = ("entropy/paired_delta", "entropy/mean", "kl/old")
TOOLS = "tools/valid_frac"
MOVES = ("entropy", "off-policy")


class DeadEnvironment(ShiftDetector):
    """Warns when the reward falls as in `RewardFall`, and the policy is observed and did not move.

    A policy that breaks also moves: its entropy, the distance to the old policy or the sampler gap departs together
    with the reward. If none of them does, the cause is outside the policy. Valid tool calls that fell as well are
    listed as agreeing. Without any signal of the policy the detector is silent. The failure cannot be predicted. An
    environment that hangs is a stall, which the collector's clock detects.

    Args:
        mechanisms: The mechanisms of the policy, `MOVES`; by default its own.
        fall: The departure of `RewardFall`, which updates it before this detector in each step; by default its own.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> series = {"reward/mean": [0.60, 0.62, 0.58, 0.60] * 3 + [0.02] * 4, "entropy/mean": [0.3] * 16}
    >>> episodes(DeadEnvironment(), series)
    [(15, 'dead_environment', 'warning')]
    """

    kind = "dead_environment"
    severity = Severity.WARNING
    reads = ("reward/mean",)
    skips_rows_without = False  # every row moves the baselines of the policy and the tools
    size = RewardFall.size
    what = "The policy did not move, and the reward"

    def __init__(self, mechanisms: Mechanisms | SharedMechanisms | None = None, fall: Departure | None = None) -> None:
        super().__init__()
        if fall is not None:
            self.departure, self._departs = fall, self._has_fallen
        self._has_own_fall = fall is None
        self.mechanisms = mechanisms or Mechanisms(only=MOVES)
        self.tools = Departure(Size(factor=0.5, errors=4.0, rows=2))
        self.moved = False
        self.observed = False

    def _has_fallen(self, reward: float) -> bool:  # noqa: ARG002 - the owner of the departure has added it
        """Return whether the reward has fallen at this step."""
        return self.departure.departs

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        finite = observation.finite
        self.moved = bool(self.mechanisms.update(observation))
        self.observed = first_finite(finite, POLICY) is not None
        valid = finite.get(TOOLS)
        if valid is not None:
            self.tools.update(valid)
        return super()._observe(observation)

    def _is_confirmed(self, observation: Observation) -> bool:  # noqa: ARG002 - processed in _observe
        """Return whether the policy is observed and does not move."""
        return self.observed and not self.moved

    def _list_agreeing(self) -> list[str]:
        return [TOOLS] if self.tools.departs else []

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest rows; the owner of the departure does this for those of the reward."""
        for part in (self.departure, self.tools) if self._has_own_fall else (self.tools,):
            part.take_back(rows, left)
        if isinstance(self.mechanisms, Mechanisms):
            self.mechanisms.take_back(rows, left)

    def _rebaseline(self) -> None:
        super()._rebaseline()
        self.mechanisms.restart()
        self.tools.restart()
