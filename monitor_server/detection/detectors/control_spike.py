"""Control-token spike: the model writes protocol tokens where content belongs."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["ControlSpike"]


class ControlSpike(ShiftDetector):
    """Warns when the share of protocol tokens in the actions doubles and rises by a tenth, in two rows of three.

    The model opens and closes calls without content while its skill is still intact. `ControlTokens` detects the other
    failure of this structure. The user must state the ids of the protocol tokens.

    Reference:
        arXiv 2606.26027, control-token spikes in tool RL.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> share = [0.10, 0.11, 0.09, 0.10] * 3 + [0.50] * 4
    >>> episodes(ControlSpike(), {"control/share": share})
    [(14, 'control_token_spike', 'warning')]
    """

    kind = "control_token_spike"
    severity = Severity.WARNING
    reads = ("control/share",)
    size = Size(factor=2.0, least=0.1, errors=6.0, rows=3)
    what = "The share of protocol tokens"
