"""The callbacks that read the rows of the fleet's table: the rows that come into view, and all rows as CSV."""

import asyncio
import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dash import ClientsideFunction, Dash, Input, Output, State, no_update, set_props

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, UnreachableError
from dashboard.collector_client.http_requests import Query
from dashboard.collector_client.types.runs import RunItem
from dashboard.components.fleet.grid_request import Controls, build_run_query, left_out, limit_closed_groups, sort_of
from dashboard.components.fleet.rows import build_grouped_row, exact_row, fleet_row
from dashboard.components.fleet.table import COLUMNS
from dashboard.components.page_frame import waiting
from dashboard.components.values import csv_cell
from dashboard.ids import fleet as fleet_ids

__all__ = ["register"]

CSV_PART: Final = 1000  # rows that are read at once
MAX_CSV_ROWS: Final = 100_000

Row = dict[str, Any]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def read(
        request: Mapping[str, Any] | None,
        closed: Sequence[str] | None,
        *values: Any,  # noqa: ANN401 - of the controls
    ) -> tuple[object, ...]:
        if not request:
            return (no_update,) * 6
        controls = Controls(*values)
        wanted = build_run_query(request, controls)
        try:
            async with ApiClient(api_url) as api:
                rows, count, matches = await _rows(api, request, wanted, controls.group, closed or ())
        except UnreachableError:
            return (no_update,) * 6  # assets/requests.js asks again
        except ApiError as error:
            return *(no_update,) * 5, waiting("The fleet cannot be shown", str(error))
        stated = [f"{matches:,} match"] if wanted.keys() - {"archived"} else []
        return (
            {"rowData": rows, "rowCount": count},
            {"--rows": count},
            count > 0,
            ". ".join(stated + left_out(request, controls)),
            (request.get("context") or {}).get("change"),
            no_update,
        )

    async def export(asked: Mapping[str, Any] | None, *values: Any) -> object:  # noqa: ANN401 - of the controls
        if not asked:
            return no_update
        try:
            async with ApiClient(api_url) as api:
                controls = Controls(*values)
                runs = await _all_runs(api, build_run_query(asked, controls), asked, controls)
        except ApiError as error:
            set_props(fleet_ids.LEFT_OUT, {"children": f"No CSV was saved. {error}", "hidden": False})
            return no_update
        content = await asyncio.to_thread(_csv, runs, asked["columns"])
        return {"content": content, "filename": "runs.csv", "type": "text/csv"}

    controls = (
        State(fleet_ids.TEXT, "value"),
        State(fleet_ids.PROJECT, "value"),
        State(fleet_ids.STATUS, "value"),
        State(fleet_ids.GROUP, "value"),
        State(fleet_ids.ARCHIVED, "value"),
    )
    app.callback(
        Output(fleet_ids.GRID, "getRowsResponse"),
        Output(fleet_ids.TABLE, "style"),
        Output(fleet_ids.NONE_MATCH, "hidden"),
        Output(fleet_ids.MATCHES, "children"),
        Output(fleet_ids.READ, "data"),
        Output(fleet_ids.FLEET, "children", allow_duplicate=True),
        Input(fleet_ids.GRID, "getRowsRequest"),
        State(fleet_ids.COLLAPSED, "data"),
        *controls,
        prevent_initial_call=True,
    )(read)
    app.clientside_callback(
        ClientsideFunction("rlvitals", "endFleetLoading"),
        Output(fleet_ids.READ, "modified_timestamp"),
        Input(fleet_ids.READ, "data"),
        prevent_initial_call=True,
    )
    app.callback(
        Output(fleet_ids.DOWNLOAD, "data"), Input(fleet_ids.CSV_WANTED, "data"), *controls, prevent_initial_call=True
    )(export)


async def _rows(
    api: ApiClient, request: Mapping[str, Any], wanted: Query, group_by: str | None, closed: Sequence[str]
) -> tuple[list[Row], int, int]:
    """Return the rows of a request of the table, how many rows the table has, and how many runs match."""
    first, end, sort = int(request["startRow"]), int(request["endRow"]), sort_of(request)
    if not group_by:
        runs, total = await api.runs.part(wanted, sort=sort, offset=first, limit=end - first)
        return [fleet_row(run) for run in runs], total, total
    closed = limit_closed_groups(closed)
    rows, count, total = await api.runs.rows(
        wanted, sort=sort, group_by=group_by, closed=closed, offset=first, limit=end - first
    )
    return [build_grouped_row(row, group_by, closed) for row in rows], count, total


def _csv(runs: Sequence[RunItem], shown: Sequence[str]) -> str:
    """Return the shown columns of runs."""
    names = {str(column["field"]): str(column["headerName"]) for column in COLUMNS}
    columns = [name for name in shown if name in names]
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow([names[name] for name in columns])
    for row in map(exact_row, runs):
        lines.writerow([csv_cell(row[name]) for name in columns])
    return text.getvalue()


async def _all_runs(api: ApiClient, wanted: Query, asked: Mapping[str, Any], controls: Controls) -> list[RunItem]:
    """Return each matching run once, in the order of the table.

    The order changes while runs go on, so that the parts of an ordered list may have a run twice, and lack another one.
    They tell the order alone where there are several.
    """
    ordered: list[RunItem] = []
    for offset in range(0, MAX_CSV_ROWS, CSV_PART):
        part, _ = await api.runs.part(
            wanted, sort=sort_of(asked), offset=offset, limit=CSV_PART, group_by=controls.group or ""
        )
        ordered += part
        if len(part) < CSV_PART:
            break
    if len(ordered) < CSV_PART:
        return ordered
    places = {run["id"]: place for place, run in enumerate(ordered)}
    runs = await api.runs.every(wanted, most=MAX_CSV_ROWS)
    return sorted(runs, key=lambda run: places.get(run["id"], len(ordered)))
