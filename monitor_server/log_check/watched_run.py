"""Which run of a folder is followed while further runs begin in it."""

import os
from collections.abc import Sequence
from pathlib import Path

from monitor_server.importers.protocol import LogError, RecordedLog

__all__ = ["WatchedRun"]


class WatchedRun:
    """Chooses the first run of a folder once, and then the same one, whatever the order of the runs is by then."""

    def __init__(self) -> None:
        # Each but the first took the place of the one before, whose file was gone. As between the two files of a
        # rotation it may come back, so that the earliest one that is there is the watched one.
        self._chosen: list[RecordedLog] = []

    def choose(self, logs: Sequence[RecordedLog]) -> RecordedLog:
        """Return the watched run among the runs that a folder has now, at least one.

        Raises:
            LogError: If the file of the watched run is there, and has no run at the moment.
        """
        for chosen in self._chosen:
            there = [log for log in logs if _place(log.path) == _place(chosen.path)]
            if there:  # a name may have got a number meanwhile, as another run has the same one
                return next((log for log in there if log.name == chosen.name), there[0])
            if os.path.exists(chosen.path):  # noqa: PTH110 - False where it may not be looked at
                raise LogError(f"{chosen.path}, which is watched, must hold a log in a known format; found none")
        self._chosen.append(logs[0])
        return logs[0]


def _place(path: Path) -> Path:
    """Return the part of a log's path that stays while its run is written.

    A checkpoint is followed by the next one with the whole history, and the output of a run of W&B by its run file.
    """
    if path.name == "trainer_state.json":
        return path.parent.parent if path.parent.name.startswith("checkpoint-") else path.parent
    if path.name == "output.log" and path.parent.name == "files":
        return path.parent.parent
    return path.parent if path.suffix == ".wandb" else path
