"""The ids of components that callbacks and browser code share; assets/*.js uses the same strings."""

from typing import Final

__all__ = [
    "ADDRESS",
    "ALERT",
    "ALERT_ACKNOWLEDGE",
    "ALERT_REFRESH",
    "COMPARE_ALIGN",
    "COMPARE_BODY",
    "COMPARE_GROUP",
    "COMPARE_RUNS",
    "COMPARE_SCALE",
    "COMPARE_SIGNALS",
    "COMPARE_SMOOTHING",
    "CONNECT_SAMPLE",
    "CONNECT_SAMPLE_STATE",
    "CONNECT_WAY",
    "FIGURE",
    "FLEET",
    "FLEET_INDEX",
    "FLEET_NONE_MATCH",
    "FLEET_PROJECT",
    "FLEET_REFRESH",
    "FLEET_STATUS",
    "FLEET_TEXT",
    "KEYS",
    "KEYS_OPEN",
    "LIVE",
    "LIVE_STATE",
    "PAGE",
    "RESPONSES_CORRECT",
    "RESPONSES_FROM",
    "RESPONSES_LIST",
    "RESPONSES_MEASURE",
    "RESPONSES_ORDER",
    "RESPONSES_TO",
    "RUN_ALERTS",
    "RUN_HEADER",
    "RUN_REFRESH",
    "SIGN_OUT",
    "THEME",
    "WORKSPACE",
    "WORKSPACE_AXIS",
    "WORKSPACE_DOWNLOAD",
    "WORKSPACE_DRAWN",
    "WORKSPACE_SCALE",
    "WORKSPACE_SEARCH",
    "WORKSPACE_SMOOTHING",
    "WORKSPACE_WANTED",
    "WORKSPACE_ZOOM",
    "fleet_row",
    "panel",
    "panel_csv",
]

ADDRESS: Final = "address"
PAGE: Final = "page"
SIGN_OUT: Final = "sign-out"
THEME: Final = "theme"
CONNECT_SAMPLE: Final = "connect-sample"
CONNECT_SAMPLE_STATE: Final = "connect-sample-state"
CONNECT_WAY: Final = "connect-way"
KEYS: Final = "keys"
KEYS_OPEN: Final = "keys-open"
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

RESPONSES_FROM: Final = "responses-from"
RESPONSES_TO: Final = "responses-to"
RESPONSES_CORRECT: Final = "responses-correct"
RESPONSES_ORDER: Final = "responses-order"
RESPONSES_MEASURE: Final = "responses-measure"
RESPONSES_LIST: Final = "responses-list"

COMPARE_RUNS: Final = "compare-runs"
COMPARE_SIGNALS: Final = "compare-signals"
COMPARE_ALIGN: Final = "compare-align"
COMPARE_SCALE: Final = "compare-scale"
COMPARE_GROUP: Final = "compare-group"
COMPARE_SMOOTHING: Final = "compare-smoothing"
COMPARE_BODY: Final = "compare-body"

FIGURE: Final = "run-figure"
RUN_HEADER: Final = "run-header"
RUN_ALERTS: Final = "run-alerts"
RUN_REFRESH: Final = "run-refresh"

WORKSPACE: Final = "workspace"
WORKSPACE_SEARCH: Final = "workspace-search"
WORKSPACE_SMOOTHING: Final = "workspace-smoothing"
WORKSPACE_AXIS: Final = "workspace-axis"
WORKSPACE_SCALE: Final = "workspace-scale"
WORKSPACE_ZOOM: Final = "workspace-zoom"  # what is zoomed to, in units of the axis, or nothing
WORKSPACE_WANTED: Final = "workspace-wanted"  # which panels the browser wants drawn, and how
WORKSPACE_DRAWN: Final = "workspace-drawn"
WORKSPACE_DOWNLOAD: Final = "workspace-download"


def fleet_row(run_id: str) -> dict[str, str]:
    """Return the id of a run's row in the fleet."""
    return {"type": "fleet-row", "run": run_id}


def connect_panel(name: str) -> dict[str, str]:
    """Return the id of the lines that connect a kind of trainer."""
    return {"type": "connect-panel", "name": name}


def panel(signal: str) -> dict[str, str]:
    """Return the id of the place in which a signal's panel is drawn."""
    return {"type": "panel", "signal": signal}


def panel_csv(signal: str) -> dict[str, str]:
    """Return the id of the button that exports a signal."""
    return {"type": "panel-csv", "signal": signal}
