"""Ranks runs and alerts by their urgency, which is their order in a list."""

from collections.abc import Iterable
from typing import Final

from dashboard.collector_client.types.alerts import AlertItem

__all__ = ["SEVERITY_ORDER", "firing"]

SEVERITY_ORDER: Final = {"critical": 0, "warning": 1, "info": 2}


def firing(alerts: Iterable[AlertItem]) -> list[AlertItem]:
    """Return the firing alerts, most severe first, then newest first."""
    held = [alert for alert in alerts if alert["state"] == "firing"]
    return sorted(held, key=lambda alert: (SEVERITY_ORDER.get(alert["severity"], 3), -alert["opened_step"]))
