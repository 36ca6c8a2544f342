"""Decides which channels are notified of an alert's transition, and writes this in its transaction."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from monitor_server.alerts.changes.transitions import AlertTransition
from monitor_server.detection.protocol import Severity
from monitor_server.durations import MINUTE_SECONDS
from monitor_server.notifications.configuration.tables import NotificationFile, Route
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.notifications.events import NotificationEvent
from monitor_server.store.repositories.runs import Run

__all__ = ["Router", "is_open", "matching_routes"]

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Router:
    """Applies the routes in force, which ``file`` returns for a transaction."""

    def __init__(self, file: Callable[[Repositories], NotificationFile]) -> None:
        self._current = file

    def record(self, repositories: Repositories, run: Run, transitions: Sequence[AlertTransition]) -> None:
        """Write the notifications about transitions of a run's alerts, in the transaction that writes the transitions.

        An alert that a silence covers causes no notification.
        """
        if not transitions:
            return
        queue, file = repositories.notification_events, self._current(repositories)
        for transition in transitions:
            alert, now = transition.alert, transition.at
            fields: dict[str, Any] = {
                "run_id": run.id, "alert_id": alert.id, "change": transition.change, "severity": alert.severity,
                "kind": alert.kind, "at": now,
            }  # fmt: skip
            is_end = transition.change == "resolved"
            if is_end:
                # A channel that is only waiting for its escalation was never notified of the alert.
                queue.remove_escalations(run.id, alert.id)
            if alert.silence_id is not None:
                continue
            if is_end:
                told = (each for each in queue.about(run.id, alert.id) if _is_end_told(file, run.project, each))
                informed = {each.channel for each in told} & file.channels.keys()
                queue.add([NotificationEvent(**fields, channel=name, due_at=now) for name in sorted(informed)])
                continue
            routes = matching_routes(file, project=run.project, kind=alert.kind, severity=alert.severity, now=now)
            # An alert is also recorded when its silence ends, and then some channels know of it.
            informed = {
                each.channel
                for each in (queue.about(run.id, alert.id) if routes else ())
                if each.severity == alert.severity and each.change in ("opened", "raised")
            }
            channels = dict.fromkeys(name for route in routes for name in route.channels if name not in informed)
            events = [NotificationEvent(**fields, channel=name, due_at=now) for name in channels]
            later = fields | {"change": "unacknowledged"}
            for name, minutes in _escalations(routes).items():
                due_at = now + minutes * MINUTE_SECONDS
                events.append(NotificationEvent(**later, channel=name, due_at=due_at))
            queue.add(events)


def matching_routes(file: NotificationFile, *, project: str, kind: str, severity: str, now: float) -> list[Route]:
    """Return the routes of an alert at a time: the first match, or all matches, as the file defines."""
    rank = Severity(severity).rank
    found = [
        route for route in file.routes if rank >= route.rank and _concerns(route, project, kind) and is_open(route, now)
    ]
    return found[:1] if file.match == "first" else found


def _is_end_told(file: NotificationFile, project: str, event: NotificationEvent) -> bool:
    """Whether the channel of an event is notified of the alert's end: one of the routes that led to the event wants it.

    The fallback has the routes of the channel that it replaced. No route is found if the file has changed since.
    """
    name = event.instead_of or event.channel
    routes = matching_routes(file, project=project, kind=event.kind, severity=event.severity, now=event.at)
    wanted = [route.resolved for route in routes if name in _all_channels(route)]
    return any(wanted) or not wanted


def is_open(route: Route, now: float) -> bool:
    """Whether a time lies in the days and hours of a route; hours past midnight count for the day they begin on."""
    at = datetime.fromtimestamp(now, tz=UTC).astimezone(ZoneInfo(route.time_zone))
    day = at.weekday()
    if route.between is not None:
        begin, end = route.between
        clock = at.time().replace(second=0, microsecond=0)
        passes_midnight = end <= begin
        if passes_midnight and clock < end:
            day = (day - 1) % 7
        elif clock < begin or (not passes_midnight and clock >= end):
            return False
    return not route.days or DAYS[day] in route.days


def _concerns(route: Route, project: str, kind: str) -> bool:
    return (not route.projects or project in route.projects) and (not route.kinds or kind in route.kinds)


def _all_channels(route: Route) -> Iterable[str]:
    yield from route.channels
    for escalation in route.escalate:
        yield from escalation.channels


def _escalations(routes: Sequence[Route]) -> dict[str, float]:
    """Return the minutes after which each channel of an escalation is notified; for repeated names, the shortest."""
    found: dict[str, float] = {}
    for route in routes:
        for escalation in route.escalate:
            for name in escalation.channels:
                found[name] = min(escalation.after_minutes, found.get(name, escalation.after_minutes))
    return found
