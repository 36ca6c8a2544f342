"""The runs to which another collector probably appends as well."""

from collections import OrderedDict
from collections.abc import Callable

__all__ = ["SharedRuns"]

# The largest number of runs to which another collector appends as well. They are locked before a batch is compared with
# their state, which the other collector has changed.
MAX_SHARED_RUNS = 4_096
# A run is shared for this long after its log has moved: a failed commit also names runs whose logs have not.
SHARED_SECONDS = 600.0


class SharedRuns:
    """Remembers for some time the runs whose logs have moved.

    Args:
        clock: Seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._moved_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._moved_at)

    def is_shared(self, run_id: str) -> bool:
        """Whether another collector probably appends to the run as well."""
        moved_at = self._moved_at.get(run_id)
        if moved_at is not None and self._clock() - moved_at > SHARED_SECONDS:
            del self._moved_at[run_id]
            return False
        return moved_at is not None

    def note_moved(self, run_id: str) -> None:
        """Note that the log of a run did not end where this collector expected."""
        self._moved_at[run_id] = self._clock()
        self._moved_at.move_to_end(run_id)
        if len(self._moved_at) > MAX_SHARED_RUNS:
            self._moved_at.popitem(last=False)
