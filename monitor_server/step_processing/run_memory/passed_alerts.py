"""Keeps the recently resolved alerts of the runs that are projected here, for receipts."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from monitor_server.alerts.verdict import PASSED_SECONDS, read_passed
from monitor_server.errors import Unavailable
from monitor_server.store.database import Store
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run

__all__ = ["PassedAlerts"]

MAX_CACHED_RUNS: Final = 512


class PassedAlerts:
    """Keeps the alerts that were read for the runs of this projector. Most runs have no such alerts."""

    def __init__(self) -> None:
        self._read: OrderedDict[str, tuple[int, int, Sequence[Alert]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._read)

    def after_slice(self, store: Store, run: Run, *, revision: int, is_changed: bool, now: float) -> Sequence[Alert]:
        """Return the alerts of a run after a slice; they are read only if they may have changed.

        Args:
            store: The database after the slice was written.
            run: The run after the slice.
            revision: The revision of the run before the slice.
            is_changed: Whether the slice has resolved an alert.
            now: Seconds since the epoch.
        """
        known = self._read.get(run.id)
        if known is None or is_changed or known[:2] != (revision, run.last_attempt):
            try:
                with store.read() as repositories:
                    alerts: Sequence[Alert] = read_passed(repositories, run, now=now)
            except Unavailable:  # the slice is committed, and its events must still be published
                self._read.pop(run.id, None)
                return ()
        else:
            alerts = [alert for alert in known[2] if alert.opened_at >= now - PASSED_SECONDS] if known[2] else ()
        self._read[run.id] = (run.revision, run.last_attempt, alerts)
        self._read.move_to_end(run.id)
        if len(self._read) > MAX_CACHED_RUNS:
            self._read.popitem(last=False)
        return alerts
