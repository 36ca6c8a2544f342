"""Describes the table of runs: AG Grid's columns, whose cells assets/fleet_cells.js draws.

AG Grid is 600 kB compressed, so the browser loads it for this page alone (assets/lazy_components.js).
"""

from pathlib import Path
from typing import Any, Final, cast

import dash_ag_grid
from dash.fingerprint import build_fingerprint

from dashboard.ids import fleet as fleet_ids

__all__ = ["COLUMNS", "HIDDEN_AT_FIRST", "fleet_table", "library_address"]

SCRIPT: Final = "dash_ag_grid.min.js"

# The script of every component library that is imported is part of every page, unless it is marked as asynchronous.
for _script in dash_ag_grid.AgGrid._js_dist:  # noqa: SLF001 - Dash's own attribute of component libraries
    if _script["relative_package_path"] == SCRIPT:
        _script["async"] = True

ROW_PIXELS: Final = 54
HIDDEN_AT_FIRST: Final = ("phase_steps", "step_seconds", "owner", "tags", "gpu_hours", "project", "started_at", "name")
BLOCK_ROWS: Final = 100  # rows of one request: twice as many as a high screen shows
KEPT_BLOCKS: Final = 2  # blocks that the browser keeps; each is read again when something changes
NO_VALUE: Final[dict[str, Any]] = {"sortable": False, "filter": False}  # a cell of several values
NOT_FILTERED: Final[dict[str, Any]] = {"filter": False}
ONE_CONDITION: Final[dict[str, Any]] = {"maxNumConditions": 1, "debounceMs": 300}
TEXT_FILTER: Final = ONE_CONDITION | {"filterOptions": ["contains"]}
NUMBER_FILTER: Final = ONE_CONDITION | {"filterOptions": ["greaterThan", "lessThan", "inRange"]}
CHANGE: Final = "Mean of the newest 8 rewards minus the mean of the first 8 of the newest 64 steps"
OWNER: Final = "The tag owner:NAME of the run; a run records no other owner"
GPU_HOURS: Final = "Hours from the first firing alert to the newest record, times the number of ranks"


def _column(field: str, title: str, *, width: int, kind: str = "", cell: str = "", **more: object) -> dict[str, object]:
    numeric = {"type": "rightAligned", "filter": "agNumberColumnFilter", "filterParams": NUMBER_FILTER}
    filtered = numeric if kind == "number" else {"filter": "agTextColumnFilter", "filterParams": TEXT_FILTER}
    renderer = {"cellRenderer": cell} if cell else {}
    return {"field": field, "headerName": title, "width": width, **filtered, **renderer, **more}


# The columns that are shown at first fit beside each other in a window of 1,440 pixels.
COLUMNS: Final = (
    _column("run", "Run", width=220, cell="FleetRun", pinned="left", lockVisible=True, minWidth=150),
    _column("alerts", "Alerts", width=137, kind="number", cell="FleetAlerts", type=None),
    _column("phase", "Phase", width=138, cell="FleetPhase"),
    _column("phase_seconds", "Time in phase", width=107, kind="number", cell="FleetDuration"),
    _column("phase_steps", "Steps in phase", width=115, kind="number", cell="FleetNumber"),
    _column("status", "Status", width=92, cell="FleetStatus"),
    _column("step", "Step", width=82, kind="number", cell="FleetNumber"),
    _column("step_seconds", "Seconds a step", width=115, kind="number", cell="FleetNumber"),
    _column("reward", "Reward", width=100, kind="number", cell="FleetNumber"),
    _column("change", "Change", width=100, kind="number", cell="FleetNumber", headerTooltip=CHANGE),
    _column("sparkline", "Newest rewards", width=122, cell="FleetSparkline", minWidth=90, **NO_VALUE),
    _column("last_seen", "Last seen", width=100, kind="number", cell="FleetSince", **NOT_FILTERED),
    # It takes the rest of a wide screen.
    _column("lead", "Leading alert", width=150, cell="FleetLead", minWidth=150, flex=1),
    _column("owner", "Owner", width=115, headerTooltip=OWNER),
    _column("tags", "Tags", width=150, cell="FleetTags", **NO_VALUE),
    _column(
        "gpu_hours", "GPU-hours since alert", width=145, kind="number", cell="FleetNumber", headerTooltip=GPU_HOURS
    ),
    _column("project", "Project", width=130),
    _column("started_at", "Started", width=115, kind="number", cell="FleetSince", **NOT_FILTERED),
    _column("name", "Name in the trainer", width=180),
)

# A box before each run. Readers cannot move or hide this column.
CHOICE: Final = _column(
    "choice",
    "Select",
    width=44,
    minWidth=44,
    cell="FleetChoice",
    pinned="left",
    lockPosition="left",
    lockVisible=True,
    resizable=False,
    suppressMovable=True,
    headerClass="choice-heading",
    cellClass="choice-cell",
    **NO_VALUE,
)


def library_address() -> str:
    """Return the address of AG Grid's script, which browsers keep as long as the version is the same."""
    changed = (Path(dash_ag_grid.__file__).parent / SCRIPT).stat().st_mtime
    return f"/_dash-component-suites/dash_ag_grid/{build_fingerprint(SCRIPT, dash_ag_grid.__version__, int(changed))}"


def fleet_table() -> dict[str, object]:
    """Return the table without rows, as JSON; the browser makes a component of it once the library is loaded."""
    grid = dash_ag_grid.AgGrid(
        id=fleet_ids.GRID,
        className="fleet-grid",
        columnDefs=[
            column | {"initialHide": column["field"] in HIDDEN_AT_FIRST, "colId": column["field"]}
            for column in (CHOICE, *COLUMNS)
        ],
        defaultColDef={
            "sortable": True,
            "cellDataType": False,
            "resizable": True,
            "suppressHeaderMenuButton": True,
            "suppressKeyboardEvent": {"function": "isFleetTab(params)"},
        },
        getRowId="params.data.id",
        rowModelType="infinite",
        dashGridOptions={
            "cacheBlockSize": BLOCK_ROWS,
            "maxBlocksInCache": KEPT_BLOCKS,
            # dash-ag-grid supports one request at a time.
            "maxConcurrentDatasourceRequests": 1,
            "blockLoadDebounceMillis": 60,
            "loading": True,  # until rows are read; assets/fleet.js counts the changes of what is asked for
            "context": {"change": 0},
            "suppressNoRowsOverlay": True,  # the page says it
            "rowHeight": ROW_PIXELS,
            "headerHeight": 38,
            "ensureDomOrder": True,
            "suppressCellFocus": True,
            "tabToNextHeader": {"function": "nextFleetHeader(params)"},
            "suppressDragLeaveHidesColumns": True,
            "suppressColumnVirtualisation": True,
            "animateRows": False,
            "enableCellTextSelection": True,
            "tooltipShowDelay": 300,
            "isFullWidthRow": {"function": "isFleetGroup(params)"},
            "fullWidthCellRenderer": "FleetGroup",
            "rowClassRules": {
                "is-critical": "params.data && params.data.severity === 'critical'",
                "is-warning": "params.data && params.data.severity === 'warning'",
                "is-ended": "params.data && params.data.state === 'ended'",
            },
        },
    )
    return cast("dict[str, object]", grid.to_plotly_json())
