"""The ids of components that callbacks and browser code share; assets/*.js uses the same strings."""

from typing import Final

__all__ = [
    "ADDRESS",
    "ALERT",
    "ALERT_ACKNOWLEDGE",
    "ALERT_REFRESH",
    "FIGURE",
    "FLEET",
    "FLEET_INDEX",
    "FLEET_NONE_MATCH",
    "FLEET_PROJECT",
    "FLEET_REFRESH",
    "FLEET_STATUS",
    "FLEET_TEXT",
    "LIVE",
    "LIVE_STATE",
    "PAGE",
    "RUN_ALERTS",
    "RUN_HEADER",
    "RUN_REFRESH",
    "fleet_row",
]

ADDRESS: Final = "address"
PAGE: Final = "page"
LIVE: Final = "live"
LIVE_STATE: Final = "live-state"

FLEET: Final = "fleet"
FLEET_INDEX: Final = "fleet-index"
FLEET_REFRESH: Final = "fleet-refresh"
FLEET_TEXT: Final = "fleet-text"
FLEET_PROJECT: Final = "fleet-project"
FLEET_STATUS: Final = "fleet-status"
FLEET_NONE_MATCH: Final = "fleet-none-match"

ALERT: Final = "alert"
ALERT_REFRESH: Final = "alert-refresh"
ALERT_ACKNOWLEDGE: Final = "alert-acknowledge"

FIGURE: Final = "run-figure"
RUN_HEADER: Final = "run-header"
RUN_ALERTS: Final = "run-alerts"
RUN_REFRESH: Final = "run-refresh"


def fleet_row(run_id: str) -> dict[str, str]:
    """Return the id of a run's row in the fleet."""
    return {"type": "fleet-row", "run": run_id}
