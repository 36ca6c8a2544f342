"""Keeps the positions of a run's signals in its packed steps, so that a slice does not read their names again."""

from collections.abc import Mapping
from typing import Final

from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.runs import Run

__all__ = ["SignalPositions"]

MAX_CACHED_RUNS: Final = 512


class SignalPositions:
    """The positions of the signals of the runs of this projector."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, dict[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs."""
        if run_id is None:
            self._known.clear()
        else:
            self._known.pop(run_id, None)

    def of(self, repositories: Repositories, run: Run) -> Mapping[str, int]:
        """Return the position of each signal of a run by its name."""
        started_at, positions = self._known.get(run.id, (None, {}))
        # Signals are only added and never removed. So another number shows that another collector has added some, and
        # another start shows that the run was deleted and began again.
        if started_at != run.started_at or len(positions) != run.signal_count:
            if len(self._known) >= MAX_CACHED_RUNS:
                self._known.clear()
            names = repositories.steps.signals(run.id)
            positions = {name: place for place, name in enumerate(names)}
            self._known[run.id] = (run.started_at, positions)
        return positions
