"""A person acknowledges an alert."""

from dataclasses import replace

from monitor_server.access.audit.entries import detail_of_alert, record_change
from monitor_server.access.callers import Caller
from monitor_server.alerts.acknowledgement import AlertAcknowledgement, acknowledge
from monitor_server.api.running_collector.collector import Collector
from monitor_server.store.repositories import Repositories

__all__ = ["acknowledge_alert"]


async def acknowledge_alert(collector: Collector, given: AlertAcknowledgement, *, author: Caller) -> None:
    """Acknowledge an alert in the name of its author, and wait a short time for the reaction of detection.

    Raises:
        UnknownAlert: If there is no such alert.
        Unavailable: If it could not be stored.
    """
    now = collector.clock()
    signed = replace(given, by=author.signature(given.by))

    def write(repositories: Repositories) -> int:
        position, kind = acknowledge(repositories, signed, now=now)
        project = repositories.runs.project(given.run_id)
        record_change(
            repositories, author, "alert.acknowledge", given.alert_id,
            now=now, project=project, by=given.by, detail=detail_of_alert(given.run_id, kind, given.note),
        )  # fmt: skip
        return position

    position = await collector.write(given.run_id, write)
    await collector.verdict_wait.until_projected(given.run_id, position)
