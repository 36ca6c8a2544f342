"""Protocol tokens lose their place: structure breaks while the skill is intact."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["ControlTokens"]


class ControlTokens(ShiftDetector):
    """Warns when the mean probability of the protocol tokens falls below 90 % of its baseline, in two rows.

    Needs the ids of the protocol tokens, which only the user can name. Blow-ups of this kind take a few steps, so the
    lead is 0 to 3 whatever the method.

    Reference:
        arXiv 2606.26027, control-token spikes in tool RL.
    """

    kind = "control_token_anomaly"
    severity = Severity.WARNING
    reads = ("control/prob",)
    size = Size(factor=0.9, least=0.02, errors=6.0, rows=2, each=True)
    what = "The probability of protocol tokens"
