"""Issues the links of a message: their hashes are stored with the message; the links are computed when it is sent."""

import logging
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from monitor_server.action_links.signing import LinkSecrets, hash_token, is_signed, sign
from monitor_server.alerts.kinds import MONITOR_DEGRADED
from monitor_server.durations import DAY_SECONDS
from monitor_server.errors import StartupError
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.action_links import StoredLink
from monitor_server.text_safety.printable import printable

__all__ = ["PATH", "LinkAction", "LinkIssuer"]

log = logging.getLogger(__name__)

PATH: Final = "/act/"  # of the pages of links, before the token
MAX_LINKED_ALERTS: Final = 5  # in a message, the most urgent ones; more would make it unreadable
KEPT_SECONDS: Final = 30 * DAY_SECONDS  # for this time, an expired link shows the state of its alert


class LinkAction(StrEnum):
    """The actions of links, in their order in a message."""

    ACKNOWLEDGE = "acknowledge"
    SILENCE = "silence_hour"
    STOP = "stop"
    ROLLBACK = "rollback"


LABELS: Final[Mapping[LinkAction, str]] = {
    LinkAction.ACKNOWLEDGE: "Acknowledge",
    LinkAction.SILENCE: "Silence for an hour",
    LinkAction.STOP: "Ask the trainer to stop",
    LinkAction.ROLLBACK: "Ask the trainer to go back to the last healthy checkpoint",
}


class LinkIssuer:
    """Issues links for the critical alerts of a message.

    Args:
        secrets: The secrets that sign links.
        public_url: The address of the dashboard, without a slash at its end.
        seconds: The time for which they are valid.
    """

    def __init__(self, secrets: LinkSecrets, *, public_url: str, seconds: float) -> None:
        self._secrets = secrets
        self._public_url = public_url
        self._seconds = seconds

    def issue(
        self,
        repositories: Repositories,
        alerts: Sequence[Mapping[str, Any]],
        *,
        message_id: str,
        channel: str,
        now: float,
    ) -> None:
        """Store the links of a message in the transaction that forms it.

        Args:
            repositories: An open transaction.
            alerts: From `notifications.messages.body.alert_items`.
            message_id: The message.
            channel: To which it goes.
            now: Seconds since the epoch.
        """
        wanted = [alert for alert in alerts if alert["severity"] == "critical" and alert["state"] == "firing"]
        if not wanted:
            return
        try:
            secret = self._secrets.current(repositories, now=now)
        except StartupError as error:
            log.error("a message to %s is sent without links: %s", channel, printable(error))  # noqa: TRY400
            return
        links, expires_at = [], float(int(now + self._seconds))
        for alert in wanted[:MAX_LINKED_ALERTS]:
            for action in _possible_actions(alert):
                bound: dict[str, Any] = {
                    "run_id": alert["run_id"], "alert_id": alert["id"], "action": str(action), "channel": channel,
                    "message_id": message_id, "expires_at": expires_at,
                }  # fmt: skip
                hashed = hash_token(sign(secret.secret, **bound))
                links.append(StoredLink(hash=hashed, secret_id=secret.id, created_at=now, **bound))
        repositories.action_links.add(links)

    def add_links(self, repositories: Repositories, body: Mapping[str, Any], *, now: float) -> dict[str, Any]:
        """Return the body of a message with the valid links of its alerts; no stored body contains links."""
        found: dict[str, list[dict[str, Any]]] = {}
        order = list(LinkAction)
        stored = [link for link in repositories.action_links.of_message(body["id"]) if link.action in order]
        for link in sorted(stored, key=lambda link: order.index(LinkAction(link.action))):
            token = self._token(repositories, link)
            if token is not None and link.used_at is None and link.expires_at > now:
                action = LinkAction(link.action)
                found.setdefault(link.alert_id, []).append(
                    {
                        "action": str(action),
                        "label": LABELS[action],
                        "url": f"{self._public_url}{PATH}{token}",
                        "expires_at": link.expires_at,
                    }
                )
        alerts = [{**alert, "links": found[alert["id"]]} if alert["id"] in found else alert for alert in body["alerts"]]
        return {**body, "alerts": alerts}

    @staticmethod
    def remove_old(repositories: Repositories, *, now: float) -> None:
        """Remove the links that expired at least a month ago."""
        repositories.action_links.remove_old(before=now - KEPT_SECONDS)

    def _token(self, repositories: Repositories, link: StoredLink) -> str | None:
        secret = self._secrets.find(repositories, link.secret_id)
        if secret is None:
            return None
        token = sign(
            secret, run_id=link.run_id, alert_id=link.alert_id, action=link.action, channel=link.channel,
            message_id=link.message_id, expires_at=link.expires_at,
        )  # fmt: skip
        return token if hash_token(token) == link.hash and is_signed(token, link, secret) else None


def _possible_actions(alert: Mapping[str, Any]) -> list[LinkAction]:
    without = {LinkAction.ACKNOWLEDGE} if alert["acknowledged_by"] is not None else set()
    # The collector failed, and the training may be healthy; or nobody is there to be asked.
    if alert["kind"] == MONITOR_DEGRADED or alert.get("run_end"):
        without |= {LinkAction.STOP, LinkAction.ROLLBACK}
    return [action for action in LinkAction if action not in without]
