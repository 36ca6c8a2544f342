"""Silent groups: groups without reward variance have no gradient, so nothing is left to learn from."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["SilentGroups"]


class SilentGroups(ShiftDetector):
    """Informs when the share of groups whose rewards are all equal has risen by half of all groups, over 10 rows.

    The advantages of such a group are zero. If it is observed, the finding states whether the groups are all correct or
    all wrong. It is information, because easy data has the same effect, also in healthy runs. `RunCollapsed` counts it
    as a mechanism.

    Reference:
        arXiv 2605.21125, advantage collapse rate.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(SilentGroups(), {"reward/zero_std_frac": [0.20, 0.22, 0.18, 0.20] * 4 + [1.0] * 8})
    [(21, 'reward_signal_dead', 'info')]
    """

    kind = "reward_signal_dead"
    severity = Severity.INFO
    reads = ("reward/zero_std_frac",)
    size = Size(least=0.5, errors=4.0, rows=10)
    what = "The share of groups without reward variance"

    def _build_finding(self, observation: Observation, level: float) -> Finding:
        """Add to the summary whether the groups are all correct or all wrong."""
        finding = super()._build_finding(observation, level)
        right, wrong = (observation.finite.get(f"reward/all_{side}_frac") for side in ("correct", "wrong"))
        if right is None or wrong is None:
            return finding
        summary = f"{finding.summary} All right: {right:.0%} of groups, all wrong: {wrong:.0%}."
        return finding._replace(summary=summary, evidence={**finding.evidence, "all_right": right, "all_wrong": wrong})
