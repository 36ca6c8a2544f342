"""The list of all runs, and the lines that connect a trainer."""

from typing import Final

FLEET: Final = "fleet"
ARCHIVED: Final = "fleet-archived"
COLLAPSED: Final = "fleet-collapsed"
COLUMNS: Final = "fleet-columns"
CSV: Final = "fleet-csv"
CURVE: Final = "fleet-curve"
CURVES: Final = "fleet-curves"
CURVES_WANTED: Final = "fleet-curves-wanted"
FILTERS: Final = "fleet-filters"
FORGET: Final = "fleet-forget"
GRID: Final = "fleet-grid"
GROUP: Final = "fleet-group"
ROWS: Final = "fleet-rows"
SAVE: Final = "fleet-save"
TABLE: Final = "fleet-table"
TABLE_DESCRIPTION: Final = "fleet-table-description"
LIBRARY: Final = "fleet-library"
VIEW: Final = "fleet-view"
VIEWS: Final = "fleet-views"
VIEW_STATE: Final = "fleet-view-state"
VIEW_TO_SAVE: Final = "fleet-view-to-save"
WALL: Final = "fleet-wall"
REFRESH: Final = "fleet-refresh"
TEXT: Final = "fleet-text"
PROJECT: Final = "fleet-project"
STATUS: Final = "fleet-status"
NONE_MATCH: Final = "fleet-none-match"
CONNECT_SAMPLE: Final = "connect-sample"
CONNECT_SAMPLE_STATE: Final = "connect-sample-state"
CONNECT_WAY: Final = "connect-way"


def connect_panel(name: str) -> dict[str, str]:
    """Return the id of the lines that connect a kind of trainer."""
    return {"type": "connect-panel", "name": name}
