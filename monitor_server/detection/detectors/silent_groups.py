"""Groups without reward variance: there is nothing left to learn from."""

from dataclasses import replace

from monitor_server.detection.parts.base import finite
from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["SilentGroups"]


class SilentGroups(ShiftDetector):
    """Says when the share of groups whose rewards are all equal has risen by half of all groups, over 10 rows.

    All right or all wrong, which is said where it is observed, their advantages are zero. Information, because easy
    data does it too: of 109 real healthy logs that hold the share it happens in one of seven. `RunCollapsed` takes it
    as a witness.

    Reference:
        arXiv 2605.21125, advantage collapse rate.
    """

    kind = "reward_signal_dead"
    severity = Severity.INFO
    reads = ("reward/zero_std_frac",)
    size = Size(least=0.5, errors=4.0, rows=10)
    what = "The share of groups without reward variance"

    def _shifted(self, observation: Observation) -> Finding:
        """Say which way the groups agree."""
        finding = super()._shifted(observation)
        right, wrong = (finite(observation.signals, f"reward/all_{side}_frac") for side in ("correct", "wrong"))
        if right is None or wrong is None:
            return finding
        summary = f"{finding.summary} All right: {right:.0%} of groups, all wrong: {wrong:.0%}."
        return replace(finding, summary=summary, evidence={**finding.evidence, "all_right": right, "all_wrong": wrong})
