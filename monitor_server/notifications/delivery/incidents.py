"""The incidents of PagerDuty that a message opens and ends: the keys and types of the events that stand for it."""

from collections.abc import Mapping
from typing import Any, Final

from monitor_server.detection.protocol import Severity

__all__ = ["event_type", "incidents"]

TYPES: Final = {"info": "info", "warning": "warning", "critical": "failure"}


def incidents(message: Mapping[str, Any]) -> list[list[str]]:
    """Return the key and the type of each event; a message that was stored without its alerts names them itself."""
    if "incidents" in message:
        return list(message["incidents"])
    return [*_opened(message), *_ended(message)]


def event_type(message: Mapping[str, Any]) -> str:
    """Return Apprise's type of a message: a success if all its alerts have ended."""
    return "success" if _is_resolved(message) else TYPES[message["severity"]]


def _is_resolved(message: Mapping[str, Any]) -> bool:
    return set(message["counts"]["changes"]) == {"resolved"}


def _opened(message: Mapping[str, Any]) -> list[list[str]]:
    """Return the incident that a message opens or repeats; none if all its alerts have ended.

    It is the one alert that has not merely ended, at its severity, or the message if there are several. A service adds
    what has the key of an open incident to it, and notifies nobody. So an alert that becomes more severe needs another
    key.
    """
    if _is_resolved(message):
        return []
    opened = [alert for alert in message["alerts"] if alert["changes"] != ["resolved"]]
    is_only = len(opened) == 1 and not message["omitted_alerts"]
    key = f"{opened[0]['id']}/{opened[0]['severity']}" if is_only else str(message["id"])
    return [[key, event_type(message)]]


def _ended(message: Mapping[str, Any]) -> list[list[str]]:
    """Return the incidents of alerts that have ended: one for each severity that an alert had."""
    return [
        [f"{alert['id']}/{severity}", "success"]
        for alert in message["alerts"]
        if "resolved" in alert["changes"]
        for severity in TYPES
        if severity == alert["severity"]
        or (
            alert["severity_step"] != alert["opened_step"]
            and Severity(severity).rank < Severity(alert["severity"]).rank
        )
    ]
