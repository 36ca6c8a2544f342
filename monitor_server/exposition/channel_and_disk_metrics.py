"""Metrics of the collector's own operation that are read at each scrape: channels, the database, disk and keys.

Metrics from a database that does not answer are left out; the other metrics show the reason.
"""

from collections.abc import Callable, Collection, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from monitor_server.errors import Unavailable
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.text_safety.printable import printable

__all__ = ["Channels", "DatabaseFaults", "DiskAndKeys"]


class Channels(Collector):
    """Reads the waiting events of the channels of notifications at each scrape."""

    def __init__(
        self,
        store: Store,
        *,
        file: Callable[[], NotificationFile],
        failing: Callable[[Repositories], Collection[str]],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._file = file
        self._failing = failing
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Return the number of waiting events, since when they wait, and whether the channel fails."""
        waiting = GaugeMetricFamily(
            "rlvitals_notifications_waiting", "Changes of alerts that a channel has not received", labels=["channel"]
        )
        oldest = GaugeMetricFamily(
            "rlvitals_notifications_oldest_waiting_seconds",
            "Time since the oldest change that a channel has not received, without the window of grouping",
            labels=["channel"],
        )
        failing = GaugeMetricFamily(
            "rlvitals_notification_channel_failing",
            "1 for a channel that does not get its messages, else 0",
            labels=["channel"],
        )
        now = self._clock()
        if self._store.faults.is_lost:  # the names of the channels may be in the database as well
            return []
        try:
            file = self._file()
            channels = file.channels
            if not channels:
                return [waiting, oldest, failing]
            with self._store.read_if_connected() as repositories:
                statuses = repositories.channel_statuses.statuses(now=now)
                broken = self._failing(repositories)
        except Unavailable:
            return []
        for channel in channels:
            status = statuses.get(channel, {})
            waiting.add_metric([channel], float(status.get("waiting", 0)))
            since = status.get("waiting_since", now) + file.grouping.window_seconds
            oldest.add_metric([channel], max(0.0, now - since))
            failing.add_metric([channel], float(channel in broken))
        return [waiting, oldest, failing]


class DatabaseFaults(Collector):
    """Reads the number of each fault of the database at each scrape."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterable[Metric]:
        """Return one counter for each fault."""
        faults = CounterMetricFamily(
            "rlvitals_database_faults",
            "Reads and writes that failed in the database, by fault",
            labels=["fault"],
        )
        for fault, count in self._store.faults.counts().items():
            faults.add_metric([fault], count)
        return [faults]


class DiskAndKeys(Collector):
    """Reads the free space of the disk, and the expiry of keys, at each scrape."""

    def __init__(self, store: Store, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Return the free bytes of a SQLite database's disk, and the expiry of the valid keys that expire."""
        free = GaugeMetricFamily("rlvitals_database_free_bytes", "Free space on the disk of the SQLite database")
        try:
            free_bytes = self._store.free_bytes
        except OSError:  # the folder of the database is gone
            free_bytes = None
        if free_bytes is not None:
            free.add_metric([], float(free_bytes))
        expiry = GaugeMetricFamily(
            "rlvitals_key_expiry_timestamp_seconds",
            "Time at which a valid key expires; keys without an end are left out",
            labels=["key"],
        )
        now = self._clock()
        try:
            with self._store.read_if_connected() as repositories:
                keys = repositories.api_keys.all()
        except Unavailable:
            return [free]
        ends: dict[str, float] = {}
        for key in keys:
            # The sessions of persons are left out: they end after hours, and the person signs in again.
            if key.expires_at is not None and key.is_valid(now) and key.subject is None:
                # Keys of two projects may have the same name.
                name = printable(key.name)
                ends[name] = min(key.expires_at, ends.get(name, key.expires_at))
        for name, end in ends.items():
            expiry.add_metric([name], end)
        return [free, expiry]
