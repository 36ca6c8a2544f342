"""Turns runs and groups of runs into the rows of the fleet's table."""

import math
from collections.abc import Collection, Sequence
from typing import Any, Final, cast

from dashboard.collector_client.types.runs import RunItem, RunRow, shown_name

__all__ = ["build_grouped_row", "exact_row", "fleet_row", "state_of", "thin"]

SPARKLINE_POINTS: Final = 40
FAILING: Final = frozenset({"decay", "acceleration", "collapsed"})  # phases that the head of a group names

Row = dict[str, Any]


def state_of(status: str) -> str:
    """Return the filter that a status belongs to: running, silent (stalled, lost) or ended."""
    return {"running": "running", "finished": "ended", "stopped": "ended"}.get(status, "silent")


def fleet_row(run: RunItem) -> Row:
    """Return the row of a run, plain values by the names of the table's columns."""
    line, leading = run.get("sparkline"), run.get("leading_alert")
    last, began, pace = run.get("last_step"), run.get("phase_from_step"), run.get("step_seconds")
    steps = None if last is None or began is None else last - began + 1
    seconds = math.nan if steps is None or pace is None else steps * pace
    return {
        "id": run["id"],
        "run": shown_name(run),
        "name": run["name"],
        "project": run["project"],
        "tags": run.get("tags") or [],
        "owner": run.get("owner"),
        "phase": run["phase"],
        "phase_steps": steps,
        "phase_seconds": round(seconds) if math.isfinite(seconds) else None,
        "status": run["status"],
        "state": state_of(run["status"]),
        "step": last,
        "step_seconds": _round(pace),
        "reward": _round(run.get("reward")),
        "change": _round(run.get("reward_change")),
        "sparkline": thin(line["values"]) if line else [],
        "signal": line["signal"] if line else "",
        "lead": leading["kind"] if leading else None,
        "summary": leading["summary"] if leading else None,
        "severity": leading["severity"] if leading else None,
        "alerts": run.get("alerts", 0),
        "counts": run.get("alert_counts", {}),
        "gpu_hours": _round(run.get("alert_gpu_hours")),
        "last_seen": run.get("last_seen"),
        "started_at": run.get("started_at"),
        "archived": run.get("archived", False),
    }


def exact_row(run: RunItem) -> Row:
    """Return the row of a run for a file: no number of the run is rounded."""
    return fleet_row(run) | {
        "step_seconds": run.get("step_seconds"),
        "reward": run.get("reward"),
        "change": run.get("reward_change"),
        "gpu_hours": run.get("alert_gpu_hours"),
    }


def build_grouped_row(row: RunRow, by: str, closed: Collection[str] = ()) -> Row:
    """Return a row of a grouped table: a run, or the head of a group, which is open unless ``closed`` has its name.

    The key of a group is its name, empty for the runs without a value, because no name is empty.
    """
    group = row["group"]
    if group is None:
        return fleet_row(cast("RunItem", row["run"]))
    key = group["name"] or ""
    return {
        "id": f"group {key}",
        "is_head": True,
        "is_open": key not in closed,
        "key": key,
        "group": group["name"] or f"no {by}",
        "count": group["runs"],
        "counts": group["alerts"],
        "phase": group["phase"] if group["phase"] in FAILING and by != "phase" else None,
    }


def thin(values: Sequence[float]) -> list[float | None]:
    """Return the newest values for a sparkline: with four digits, None where a value is not finite."""
    kept = values[-SPARKLINE_POINTS:]
    return [_round(value) if math.isfinite(value) else None for value in kept]


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
