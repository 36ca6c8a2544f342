"""Tool-use collapse: the model stops searching, or its calls stop being valid."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["ToolUseCollapse"]


class ToolUseCollapse(ShiftDetector):
    """Warns when tool calls per response fall to half of their baseline within 40 rows.

    The reward may stay for a while, because questions that need no tool are answered as before. A fall that takes
    longer than the window is not detected.

    Reference:
        arXiv 2605.26037: tool-grounded answers rise, then reach zero within 50 steps, on 4 seeds of 4.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(ToolUseCollapse(), {"tools/calls": [1.8, 1.9, 1.7, 1.8] * 3 + [0.1] * 4})
    [(14, 'tool_use_collapse', 'warning')]
    """

    kind = "tool_use_collapse"
    severity = Severity.WARNING
    reads = ("tools/calls", "tools/valid_frac")
    size = Size(factor=0.5, errors=6.0, rows=3)
    what = "Tool use"
