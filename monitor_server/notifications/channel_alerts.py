"""A failing channel has an alert of its own, `channel_failing:NAME`, among the alerts about the collector."""

from collections.abc import Collection
from typing import Final

from monitor_server.alerts.collector_alerts import update_collector_alerts
from monitor_server.detection.protocol import Finding, Severity
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.notifications.channel_status import FAILING_ATTEMPTS
from monitor_server.store.repositories.runs import Run

__all__ = ["end_failure", "resolve_removed_channels", "update_channel_alert"]

PREFIX: Final = "channel_failing:"


def end_failure(repositories: Repositories, channel: str, *, now: float) -> list[tuple[Run, Alert]]:
    """Count a channel as new, because it has changed or has accepted a test; return what `update_channel_alert` does.

    The message that it has refused is sent at once.
    """
    repositories.channel_statuses.forget_failure(channel)
    repositories.notification_messages.begin_again(channel, now=now)
    return update_channel_alert(repositories, channel, now=now)


def update_channel_alert(repositories: Repositories, channel: str, *, now: float) -> list[tuple[Run, Alert]]:
    """Open or resolve the alert of a channel, in the transaction that changes its status.

    Args:
        repositories: An open transaction.
        channel: Its name.
        now: Seconds since the epoch.

    Returns:
        The run and each alert that has changed.
    """
    kind, findings = PREFIX + channel, []
    for reason in repositories.channel_statuses.failing([channel]).values():
        finding = Finding(
            kind=kind,
            severity=Severity.WARNING,
            step=0,
            score=float(FAILING_ATTEMPTS),
            threshold=float(FAILING_ATTEMPTS),
            summary=f"the channel {channel} does not accept its messages: {reason}",
            evidence={"channel": channel, "error": reason},
        )
        findings.append(finding)
    return update_collector_alerts(repositories, findings, now=now, concerns=lambda found: found == kind)


def resolve_removed_channels(
    repositories: Repositories, known: Collection[str], *, now: float
) -> list[tuple[Run, Alert]]:
    """Resolve the alerts of channels that are no longer in the file; return the run and each alert that has changed."""
    kinds = {PREFIX + channel for channel in known}
    return update_collector_alerts(
        repositories, [], now=now, concerns=lambda kind: kind.startswith(PREFIX) and kind not in kinds
    )
