"""Computes how the likelihood of correct responses' actions changed, by their position (arXiv 2512.04220, Fig. 5)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor_server.attribution.onsets import Signal

__all__ = ["ActionChange", "action_changes", "find_crossing"]

BEFORE_ROWS = 20
AFTER_ROWS = 3
ACTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionChange:
    """Likelihood of one action of correct responses, per token, nats: median before the onset and at the alert."""

    action: int
    before: float
    at_alert: float
    change: float


def action_changes(signals: Mapping[str, Signal], *, onset_step: int, opened_step: int) -> list[ActionChange]:
    """Return each observed action's change from before ``onset_step`` (20 rows) to the alert (3 rows)."""
    found = []
    for action in range(ACTIONS):
        steps, values = _finite(signals.get(f"likelihood/action{action}"), opened_step)
        before = values[steps < onset_step][-BEFORE_ROWS:]
        if len(before) and len(values) > AFTER_ROWS:
            was, is_now = float(np.median(before)), float(np.median(values[-AFTER_ROWS:]))
            found.append(ActionChange(action=action, before=was, at_alert=is_now, change=is_now - was))
    return found


def find_crossing(signals: Mapping[str, Signal], *, opened_step: int) -> int | None:
    """Return the first step from which the first action stays less likely than the second; None if it does not."""
    first_steps, first = _finite(signals.get("likelihood/action0"), opened_step)
    second_steps, second = _finite(signals.get("likelihood/action1"), opened_step)
    steps, own, other = np.intersect1d(first_steps, second_steps, return_indices=True)
    if len(steps) < AFTER_ROWS:
        return None
    gap = np.median(np.lib.stride_tricks.sliding_window_view(first[own] - second[other], AFTER_ROWS), axis=1)
    above = np.flatnonzero(gap >= 0)
    if not above.size or above[-1] == len(gap) - 1:
        return None
    return int(steps[above[-1] + AFTER_ROWS])


def _finite(signal: Signal | None, opened_step: int) -> Signal:
    if signal is None:
        nothing: NDArray[np.int64] = np.array([], dtype=np.int64)
        return nothing, nothing.astype(np.float64)
    steps, values = signal
    known = np.isfinite(values) & (steps <= opened_step)
    return steps[known], values[known]
