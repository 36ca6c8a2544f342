"""Tool use peaks and is given up: the model stops to search, or its calls stop being valid."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["ToolUseCollapse"]


class ToolUseCollapse(ShiftDetector):
    """Warns when tool calls per response fall to half of their baseline within 40 rows.

    The reward may still hold for a while: what needed no tool is answered as before. In 35 real healthy agent logs
    it does not fire. A fall that takes longer than the window is not seen.

    Reference:
        arXiv 2605.26037: tool-grounded answers rise, then reach zero within 50 steps, on 4 seeds of 4.
    """

    kind = "tool_use_collapse"
    severity = Severity.WARNING
    reads = ("tools/calls", "tools/valid_frac")
    size = Size(factor=0.5, errors=6.0, rows=3)
    what = "Tool use"
