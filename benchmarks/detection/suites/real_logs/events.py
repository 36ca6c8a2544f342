"""The rule by which suite C decides whether an alarm belongs to an event of a real log, and the reason of a miss.

An alarm counts if it opens within 50 rows before the event, or a few rows after it. An alarm that opened earlier may
have had nothing to do with the event, even if it still holds there.
"""

import numpy as np

from benchmarks.detection.scoring.traces import Trace

__all__ = ["LEAD_ROWS", "PAGE_SLACK", "WARN_SLACK", "alarmed_within", "verdict"]

LEAD_ROWS = 50  # rows before an event in which an alarm counts as an alarm of it
WARN_SLACK, PAGE_SLACK = 3, 5  # rows after the event that still count
_SLACK = {"warn": WARN_SLACK, "page": PAGE_SLACK}


def alarmed_within(trace: Trace, level: str, *, before: int | None, after: int) -> bool:
    """Return whether an alarm opened in the rows around the event.

    Args:
        trace: The trace of a run with an event.
        level: ``"warn"`` or ``"page"``.
        before: Rows before the event that count; None counts all.
        after: Rows after the event that count.
    """
    if trace.truth.collapse is None:
        return False
    rows = _rows_from_event(trace, level)
    first = -len(trace.steps) if before is None else -before
    return bool(((rows >= first) & (rows <= after)).any())


def verdict(trace: Trace, level: str) -> str:
    """Return in words when an alarm of the event opened, or why there is none.

    A missed page also names the findings that had opened the warnings of the event, none of which is critical.

    Args:
        trace: The trace of a run with an event.
        level: ``"warn"`` or ``"page"``.
    """
    rows = _rows_from_event(trace, level)
    counted = rows[(rows >= -LEAD_ROWS) & (rows <= _SLACK[level])]
    if len(counted):
        return _distance(int(counted[0]))
    known = f"; {_event_row(trace)} rows precede it"
    early, late = rows[rows < -LEAD_ROWS], rows[rows > _SLACK[level]]
    reasons = []
    if len(early):
        strength = trace.warn if level == "warn" else trace.page
        held = "still held" if strength[_event_row(trace)] >= 1.0 else "had ended"
        reasons.append(f"opened {_distance(int(early[-1]))} and {held}")
    if len(late):
        reasons.append(f"opened {_distance(int(late[0]))}")
    warned = _kinds_warned(trace) if level == "page" else ""
    return f"missed: {', then '.join(reasons) or 'never opened'}{warned}{known}"


def _kinds_warned(trace: Trace) -> str:
    """Return the findings of the warnings that belong to the event, as an addition to the reason of a missed page."""
    window = trace.steps[max(0, _event_row(trace) - LEAD_ROWS) : _event_row(trace) + WARN_SLACK + 1]
    kinds = {opening.kind for opening in trace.opened if opening.step in window and not opening.is_page}
    return f", warned by {', '.join(sorted(kinds))} alone" if kinds else ""


def _event_row(trace: Trace) -> int:
    return int(np.searchsorted(trace.steps, trace.truth.collapse or 0))


def _rows_from_event(trace: Trace, level: str) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return where alarms open, in rows after the event."""
    return np.searchsorted(trace.steps, trace.openings(level)) - _event_row(trace)


def _distance(rows: int) -> str:
    """Write a distance from the event.

    >>> _distance(-1), _distance(0), _distance(4)
    ('1 row before', 'at its row', '4 rows after')
    """
    if not rows:
        return "at its row"
    return f"{abs(rows)} row{'s' if abs(rows) != 1 else ''} {'before' if rows < 0 else 'after'}"
