"""Forms a message from the events that wait for a channel, in the transaction that claims it."""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from monitor_server.action_links.issuing import LinkIssuer
from monitor_server.notifications.messages.content import alert_items, build_body, most_severe
from monitor_server.store.encoding.stored_json import showable
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.notifications.messages import WaitingEvents

__all__ = ["form_message"]

# With the rest of the body and its links less than 100 kB, the limit of widely used parsers of requests.
MOST_BYTES: Final = 80_000


def form_message(
    repositories: Repositories,
    waiting: WaitingEvents,
    *,
    public_url: str,
    now: float,
    links: LinkIssuer | None = None,
) -> None:
    """Put all due events of a channel into one message with its body; without due events there is no message.

    Args:
        repositories: An open transaction.
        waiting: The events that wait.
        public_url: The address of the dashboard, for links.
        now: Seconds since the epoch.
        links: Issues the links by which the channel's readers act; None if the channel gets none.
    """
    messages, message_id = repositories.notification_messages, uuid.uuid4().hex
    severity = most_severe(waiting.rank)
    number = messages.form(message_id, waiting.channel, severity=severity, now=now)
    if not number:
        return
    alerts = _first_that_fit(alert_items(messages.details(message_id), public_url=public_url))
    replaced = sorted({name for alert in alerts for name in alert["instead_of"]})
    statuses = repositories.channel_statuses.statuses(now=now) if replaced else {}
    failing = {name: str(statuses.get(name, {}).get("last_error") or "it has given a message up") for name in replaced}
    body = build_body(
        message_id=message_id,
        channel=waiting.channel,
        created_at=now,
        severity=severity,
        alerts=alerts,
        counts=messages.counts(message_id),
        public_url=public_url,
        failing=failing,
    )
    if links is not None:
        links.issue(repositories, alerts, message_id=message_id, channel=waiting.channel, now=now)
    messages.set_body(message_id, json.dumps(showable(body)).encode(), events=number)


def _first_that_fit(alerts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return as many alerts as fit into the body of a message, the most urgent ones."""
    fitting, left = [], MOST_BYTES
    for alert in alerts:
        left -= len(json.dumps(showable(alert)))
        if left < 0:
            break
        fitting.append(alert)
    return fitting
