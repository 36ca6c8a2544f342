"""The callback of the fleet page that reads the curves of a chosen signal, for the rows in view."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, TypedDict, cast

from dash import ClientsideFunction, Dash, Input, Output, no_update

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, NotFoundError
from dashboard.components.fleet.rows import thin
from dashboard.ids import fleet as fleet_ids

__all__ = ["register"]

MAX_RUNS: Final = 60  # of one request; the browser asks for the others next
AT_ONCE: Final = 8  # requests to the collector
STEPS: Final = 2000  # that are read, which is enough for the newest values of a trainer that logs every fiftieth step


class _Curve(TypedDict):
    """The newest values of a signal, and the step of the last one; -1 before the first."""

    values: list[float | None]
    step: int


def register(app: Dash, api_url: str) -> None:
    """Register the callback."""

    async def read(wanted: Mapping[str, object] | None) -> object:
        if not wanted:
            return no_update
        signal = str(wanted["signal"])
        # A tab that an older dashboard has opened names the step of each run too.
        runs = [run if isinstance(run, str) else run[0] for run in cast("list[Any]", wanted["runs"])[:MAX_RUNS]]
        turns = asyncio.Semaphore(AT_ONCE)
        async with ApiClient(api_url) as api:
            curves = await asyncio.gather(*(_read(api, turns, signal, run_id) for run_id in runs))
        return {"signal": signal, "curves": dict(zip(runs, curves, strict=True))}

    app.callback(Output(fleet_ids.CURVES, "data"), Input(fleet_ids.CURVES_WANTED, "data"), prevent_initial_call=True)(
        read
    )
    app.clientside_callback(
        ClientsideFunction("rlvitals", "fleetCurvesRead"),
        Output(fleet_ids.CURVES, "modified_timestamp"),
        Input(fleet_ids.CURVES, "data"),
        prevent_initial_call=True,
    )


async def _read(api: ApiClient, turns: asyncio.Semaphore, signal: str, run_id: str) -> _Curve | None:
    """Return the curve of a run up to its newest step; empty if the signal was not observed, None if it cannot be read.

    What lies beyond the newest step is from before a rewind.
    """
    async with turns:
        try:
            last = (await api.runs.get(run_id)).get("last_step")  # the browser's row may be older
            steps = (max(0, (last or 0) - STEPS), 2**53 if last is None else last)
            found = await api.runs.series(run_id, [signal], steps=steps)
        except NotFoundError:
            found = {}
        except ApiError:
            return None
    if signal not in found or not found[signal]["steps"]:
        return _Curve(values=[], step=-1)
    return _Curve(values=thin(found[signal]["values"]), step=found[signal]["steps"][-1])
