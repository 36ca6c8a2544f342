"""Reads a link and uses it: once, before its end, and only while its alert is open."""

import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from monitor_server.access.audit.entries import detail_of_alert, record_change
from monitor_server.access.callers import Caller, Scope
from monitor_server.action_links.issuing import LinkAction
from monitor_server.action_links.signing import LinkSecrets, confirmation, hash_token, is_confirmed, is_signed, is_token
from monitor_server.action_requests.requesting import RequestableAction, request_action
from monitor_server.alerts.acknowledgement import AlertAcknowledgement, acknowledge
from monitor_server.durations import HOUR_SECONDS
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.action_links import StoredLink
from monitor_server.store.repositories.alerts import Alert, alert_of
from monitor_server.store.repositories.silences import Silence

__all__ = ["FoundLink", "LinkState", "LinkUse", "check_link", "read_link", "use_link"]

SILENCE_SECONDS: Final = HOUR_SECONDS


class LinkState(StrEnum):
    """Whether a link can be used."""

    OPEN = "open"
    USED = "used"
    EXPIRED = "expired"
    RESOLVED = "resolved"
    """Its alert is resolved, so there is nothing left to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLink:
    """A link with a valid token, with the current state of its alert.

    Attributes:
        confirmation: The value in the form of its page.
    """

    link: StoredLink
    state: LinkState
    alert: Alert
    run: str
    project: str
    confirmation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkUse:
    """The result of an attempt to use a link.

    Attributes:
        found: The link before its use; None if the token is not valid.
        is_confirmed: Whether the request came from the form of its page.
        is_done: Whether this request has carried out the action.
        position: The position of the run's log up to which detection should read; None if it has nothing to do.
    """

    found: FoundLink | None
    is_confirmed: bool = False
    is_done: bool = False
    position: int | None = None


def read_link(repositories: Repositories, secrets: LinkSecrets, token: str, *, now: float) -> FoundLink | None:
    """Return the link of a token, or None if the token is not valid or its run is deleted."""
    link = repositories.action_links.find(hash_token(token)) if is_token(token) else None
    if link is None or link.action not in list(LinkAction):
        return None
    secret = secrets.find(repositories, link.secret_id)
    if secret is None or not is_signed(token, link, secret):
        return None
    row = repositories.alerts.view(link.alert_id)
    if row is None or row["run_id"] != link.run_id:
        return None
    alert = alert_of(row)
    return FoundLink(
        link=link,
        state=_state(link, alert, now),
        alert=alert,
        run=row["run"],
        project=row["project"],
        confirmation=confirmation(secret, link.hash, now=now),
    )


def check_link(repositories: Repositories, secrets: LinkSecrets, token: str, given: str, *, now: float) -> LinkUse:
    """Return the result that an attempt to use a link would have, without a change.

    Args:
        repositories: A transaction, for which read access is enough.
        secrets: The secrets that signed the link.
        token: The link's token.
        given: The value from the form of the confirmation page.
        now: Seconds since the epoch.
    """
    found = read_link(repositories, secrets, token, now=now)
    secret = None if found is None else secrets.find(repositories, found.link.secret_id)
    if found is None or secret is None:
        return LinkUse(found=None)
    return LinkUse(found=found, is_confirmed=is_confirmed(given, secret, found.link.hash, now=now))


def use_link(repositories: Repositories, secrets: LinkSecrets, token: str, given: str, *, now: float) -> LinkUse:
    """Carry out the action of a link, in an open transaction; of several simultaneous requests, one does it.

    Args:
        repositories: The transaction.
        secrets: The secrets that signed the link.
        token: The link's token.
        given: The value from the form of the confirmation page.
        now: Seconds since the epoch.

    Raises:
        RequestNotPossible: If the trainer cannot receive the request; the link can be used again.
    """
    checked = check_link(repositories, secrets, token, given, now=now)
    found = checked.found
    if found is None or not checked.is_confirmed:
        return checked
    # The run is locked first, as in every other change of a run. Before the lock, a step may have resolved the alert,
    # or somebody may have ended all links.
    run = repositories.runs.lock(found.link.run_id)
    found = read_link(repositories, secrets, token, now=now)
    if found is None:
        return LinkUse(found=None)
    is_usable = run is not None and found.state is LinkState.OPEN
    if not is_usable or not repositories.action_links.use(found.link.hash, now=now):
        return LinkUse(found=found, is_confirmed=True)
    position = _act(repositories, found, now=now)
    return LinkUse(found=found, is_confirmed=True, is_done=True, position=position)


def _act(repositories: Repositories, found: FoundLink, *, now: float) -> int | None:
    link, alert = found.link, found.alert
    author = Caller(name=f"link sent to {link.channel}", scope=Scope.OPERATE, project=found.project)
    by, detail = author.signature(), f"by a link in message {link.message_id}"
    action, target, position = "alert.acknowledge", alert.id, None
    if link.action == LinkAction.ACKNOWLEDGE:
        given = AlertAcknowledgement(run_id=alert.run_id, alert_id=alert.id, by=by, note="by a link in a notification")
        position, kind = acknowledge(repositories, given, now=now)
        detail = detail_of_alert(alert.run_id, kind, detail)
    elif link.action in (LinkAction.STOP, LinkAction.ROLLBACK):
        wanted = RequestableAction(link.action)
        request_action(repositories, alert.id, wanted, by=by, note="by a link in a notification", now=now)
        action, target, detail = f"run.{wanted}", alert.run_id, f"asked for, about alert {alert.id}, {detail}"
    else:
        action, target = "silence.create", uuid.uuid4().hex[:16]
        silence = Silence(
            id=target,
            project=found.project,
            run_id=None,
            kind=None,
            alert_id=alert.id,
            severity=alert.severity,
            starts_at=now,
            ends_at=now + SILENCE_SECONDS,
            reason="for an hour, by a link in a notification",
            created_at=now,
            created_by=by,
        )
        repositories.silences.add(silence)
        detail = f"alert_id {alert.id}, {detail}"
    record_change(repositories, author, action, target, now=now, project=found.project, detail=detail)
    return position


def _state(link: StoredLink, alert: Alert, now: float) -> LinkState:
    if link.used_at is not None:
        return LinkState.USED
    if link.expires_at <= now:
        return LinkState.EXPIRED
    return LinkState.RESOLVED if alert.state == "resolved" else LinkState.OPEN
