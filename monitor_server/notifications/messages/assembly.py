"""Forms a message from the events that wait for a channel, in the transaction that claims it."""

import json
import uuid
from collections.abc import Sequence
from typing import Any, Final

from monitor_server.action_links.issuing import LinkIssuer
from monitor_server.notifications.messages.body import alert_items, build_body, most_severe
from monitor_server.store.encoding.stored_json import showable
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.notifications.messages import WaitingEvents

__all__ = ["form_message"]

# With the rest of the body and its links less than 100 kB, the limit of widely used parsers of requests.
MOST_BYTES: Final = 80_000
MOST_BYTES_OF_NAMES: Final = 4_000  # of kinds, and as many of projects, whose alerts are counted by name


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
    alerts = _first_that_fit(alert_items(messages.details(message_id), public_url=public_url), MOST_BYTES)
    counts = messages.counts(message_id)
    for name in ("kinds", "projects"):
        counts[name] = dict(_first_that_fit(list(counts[name].items()), MOST_BYTES_OF_NAMES))
    replaced = sorted({name for alert in alerts for name in alert["instead_of"]})
    statuses = repositories.channel_statuses.statuses(now=now) if replaced else {}
    failing = {name: str(statuses.get(name, {}).get("last_error") or "it has given a message up") for name in replaced}
    body = build_body(
        message_id=message_id,
        channel=waiting.channel,
        created_at=now,
        severity=severity,
        alerts=alerts,
        counts=counts,
        public_url=public_url,
        failing=failing,
    )
    if links is not None:
        links.issue(repositories, alerts, message_id=message_id, channel=waiting.channel, now=now)
    messages.set_body(message_id, json.dumps(showable(body)).encode(), events=number)


def _first_that_fit(items: Sequence[Any], most: int) -> list[Any]:
    """Return as many items as fit into a number of bytes of the body, the first ones."""
    fitting, left = [], most
    for item in items:
        left -= len(json.dumps(showable(item)))
        if left < 0:
            break
        fitting.append(item)
    return fitting
