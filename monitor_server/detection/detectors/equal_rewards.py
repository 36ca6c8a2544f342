"""Equal rewards: no group has any variance of reward from the first step on, so nothing is learned."""

from collections.abc import Mapping

from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.protocol import Severity

__all__ = ["EqualRewards"]


class EqualRewards(PreflightDetector):
    """Informs when no reward differs within its group in each of the first five rows.

    It reads the share of groups without variance (1), or the standard deviation of all rewards (0). Advantages are then
    zero: the grader may return a constant, the format may never be met, or the questions are all too hard or too easy.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(EqualRewards(), {"reward/zero_std_frac": [1.0] * 5})
    [(4, 'equal_rewards', 'info')]
    """

    kind = "equal_rewards"
    severity = Severity.INFO
    reads = ("reward/zero_std_frac", "reward/std")
    rows = 5
    bound = 1.0
    rule = "share of groups without variance = 1, or standard deviation of rewards = 0"

    def _read(self, finite: Mapping[str, float]) -> tuple[str, float] | None:
        found = super()._read(finite)
        if found is not None and found[0] == "reward/std":
            return found[0], 1.0 if found[1] == 0.0 else 0.0
        return found

    def _is_wrong(self, value: float) -> bool:
        return value >= self.bound

    def _describe(self, value: float) -> str:  # noqa: ARG002 - the value is the bound
        return "No reward differs within its group"
