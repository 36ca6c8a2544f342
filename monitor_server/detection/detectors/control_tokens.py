"""Control-token anomaly: protocol tokens become improbable, so that the structure of calls breaks."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["ControlTokens"]


class ControlTokens(ShiftDetector):
    """Warns when the mean probability of the protocol tokens falls below 90 % of its baseline, in two rows.

    The user must state the ids of the protocol tokens. Failures of this kind take a few steps, so the lead is 0 to 3
    steps with any method.

    Reference:
        arXiv 2606.26027, control-token spikes in tool RL.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> probability = [0.95, 0.96, 0.94, 0.95] * 3 + [0.50] * 4
    >>> episodes(ControlTokens(), {"control/prob": probability})
    [(14, 'control_token_anomaly', 'warning')]
    """

    kind = "control_token_anomaly"
    severity = Severity.WARNING
    reads = ("control/prob",)
    size = Size(factor=0.9, least=0.02, errors=6.0, rows=2, each=True)
    what = "The probability of protocol tokens"
