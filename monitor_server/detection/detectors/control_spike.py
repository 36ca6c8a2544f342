"""Protocol tokens spread: the model writes structure where content belongs."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["ControlSpike"]


class ControlSpike(ShiftDetector):
    """Warns when protocol tokens take twice their usual share of the actions, and a tenth more, in two rows of three.

    Calls are opened and closed without content while the skill is still intact; `ControlTokens` sees the other way in
    which structure breaks. Needs the ids of the protocol tokens, which only the user can name.

    Reference:
        arXiv 2606.26027, control-token spikes in tool RL.
    """

    kind = "control_token_spike"
    severity = Severity.WARNING
    reads = ("control/share",)
    size = Size(factor=2.0, least=0.1, errors=6.0, rows=3)
    what = "The share of protocol tokens"
