"""Joint departure: two mechanisms leave their baselines together. The most general rule on metrics alone."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.detector_parts.mechanisms import CHANNELS, Mechanisms, SharedMechanisms
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.departure import second_largest

__all__ = ["JointDeparture"]

HELD_ROWS = 5


class JointDeparture(StreamDetector):
    """Warns when two different mechanisms depart from their baselines within two rows of each other.

    Entropy, length, reward, off-policyness and the distance to the reference each wander, jump and trend in healthy
    runs. It is rare there that two of them do so at once, each by a size that matters and beyond its noise. The
    gradient norm is left out on purpose: its spikes follow every other mechanism, and with it the rule fires in many
    more healthy runs. The finding holds for another 4 rows.

    Args:
        mechanisms: The mechanisms to read; by default its own.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> entropy, length = [0.30, 0.31, 0.29, 0.30] * 3 + [0.9] * 4, [200.0, 210.0, 190.0, 200.0] * 3 + [600.0] * 4
    >>> episodes(JointDeparture(), {"entropy/mean": entropy, "length/mean": length})
    [(13, 'joint_departure', 'warning')]
    """

    kind = "joint_departure"
    severity = Severity.WARNING
    reads = tuple(dict.fromkeys(signal for _, signal, _ in CHANNELS.values()))

    def __init__(self, mechanisms: Mechanisms | SharedMechanisms | None = None) -> None:
        super().__init__()
        self.mechanisms = mechanisms or Mechanisms()
        self.left = 0
        self.since: int | None = None
        self.moved: list[str] = []

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        moved = self.mechanisms.update(observation)
        if len(moved) > 1:
            self.since = observation.step if self.since is None else self.since
            self.left = HELD_ROWS + 1
            self.moved = [name for names in moved.values() for name in names]
        self.left = max(0, self.left - 1)
        if not self.left:
            self.since = None
            return ()
        channels = self.mechanisms.channels
        scores = {name: channels[name].score for name in self.moved}
        strongest = max(scores, key=scores.__getitem__)
        channel = channels[strongest]
        changes = ", ".join([self.mechanisms.describe(name) for name in self.moved])
        return [
            self._finding(
                observation,
                f"Several mechanisms left their baselines together since step {self.since}: {changes}.",
                signal=CHANNELS[strongest][1],
                baseline=channel.baseline,
                window=len(channel.values),
                statistic=second_largest(self._strengths().values()),
                threshold=1.0,
                mechanisms=sorted({CHANNELS[name][0] for name in self.moved}),
                scores=scores,
                agreeing=[CHANNELS[name][1] for name in self.moved],
                onset=[self.since, self.since],
                arithmetic="two mechanisms beyond size, factor and noise of their own 40 rows within 2 rows",
            )
        ]

    def _strengths(self) -> dict[str, float]:
        """Return how far each departed mechanism is beyond its bounds, by its strongest channel."""
        strengths: dict[str, float] = {}
        for name in self.moved:
            mechanism, strength = CHANNELS[name][0], self.mechanisms.channels[name].strength
            strengths[mechanism] = max(strength, strengths.get(mechanism, 0.0))
        return strengths

    def _resume(self, step: int) -> None:
        if self.since is not None and step <= self.since:
            self.left, self.since = 0, None

    def _rebaseline(self) -> None:
        self.mechanisms.restart()
        self.left, self.since = 0, None
