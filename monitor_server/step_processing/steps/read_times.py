"""Finds a time before which every stored entry of a run's log has been read.

A rank is missing at the deadline of a step only if its record is not in the log. Where the projector is behind, the
record may be stored and not be read yet.
"""

import math
from collections import OrderedDict
from typing import Final

from monitor_server.store.repositories.runs import Run

__all__ = ["ReadTimes"]

MAX_RUNS_BEHIND: Final = 4_096


class ReadTimes:
    """Keeps, for each run behind, an end of its log that is awaited, and the times of this end and of the last one.

    A log that grows as fast as it is read may never be read to its end, but it is read to where it ended at some time.
    """

    def __init__(self) -> None:
        self._awaited: OrderedDict[str, tuple[int, float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._awaited)

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory; their overdue steps may then wait a little longer."""
        if run_id is None:
            self._awaited.clear()
        else:
            self._awaited.pop(run_id, None)

    def read_time(self, run: Run, *, now: float) -> float:
        """Return the newest such time that is known, in seconds since the epoch; minus infinity if none is.

        Args:
            run: The run, with its position and the end of its log in a snapshot.
            now: The time of the snapshot.
        """
        if run.position >= run.log_end:
            self._awaited.pop(run.id, None)
            return now
        end, ended_at, read_time = self._awaited.pop(run.id, (run.log_end, now, -math.inf))
        if end > run.log_end:  # the run was deleted and has begun anew
            end, ended_at, read_time = run.log_end, now, -math.inf
        elif run.position >= end:
            end, ended_at, read_time = run.log_end, now, ended_at
        self._awaited[run.id] = (end, ended_at, read_time)
        if len(self._awaited) > MAX_RUNS_BEHIND:
            self._awaited.popitem(last=False)
        return read_time
