"""Turns runs and alerts into the rows of the fleet's table, plain values by which the browser sorts and filters."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from dashboard.api.types.alerts import AlertItem
from dashboard.api.types.runs import RunItem
from dashboard.api.urgency import alerts_of, by_trouble, firing
from dashboard.figures.overlay import setting_of

__all__ = ["fleet_rows", "owner_of", "state_of", "thinned"]

SPARKLINE_POINTS = 40
OWNER_TAG = "owner:"
COMPARED = 8  # values at each end of the kept rewards, whose means are compared


def state_of(run: RunItem) -> str:
    """Return the filter that a status belongs to: running, silent (stalled, lost) or ended."""
    return {"running": "running", "finished": "ended", "stopped": "ended"}.get(run["status"], "silent")


def owner_of(tags: Sequence[str]) -> str | None:
    """Return who owns a run, by its first tag of the form ``owner:ana``; None without such a tag."""
    return next((tag.removeprefix(OWNER_TAG).strip() for tag in tags if tag.startswith(OWNER_TAG)), None)


def fleet_rows(runs: Sequence[RunItem], alerts: Sequence[AlertItem]) -> list[dict[str, object]]:
    """Return a row for each run, the most urgent first.

    Args:
        runs: The runs.
        alerts: Their alerts in any state; those that fire are counted.
    """
    held = alerts_of(firing(alerts))
    return [_row(run, held.get(run["id"], [])) for run in by_trouble(runs, alerts)]


def _row(run: RunItem, alerts: Sequence[AlertItem]) -> dict[str, object]:
    title, project, tags = run.get("title") or run["name"], run["project"], run.get("tags") or []
    counts = Counter(alert["severity"] for alert in alerts)
    line = run.get("sparkline")
    rewards = [value for value in (line["values"] if line else []) if math.isfinite(value)]
    last, began, pace = run.get("last_step"), run.get("phase_from_step"), run.get("step_seconds")
    steps = None if last is None or began is None else last - began + 1
    words = (project, run["name"], title, run["phase"], run["status"], *tags)
    return {
        "id": run["id"],
        "run": title,
        "name": run["name"],
        "project": project,
        "tags": tags,
        "owner": owner_of(tags),
        "phase": run["phase"],
        "phase_steps": steps,
        "phase_seconds": None if steps is None or pace is None else round(steps * pace),
        "status": run["status"],
        "state": state_of(run),
        "step": last,
        "step_seconds": _rounded(pace),
        "reward": _rounded(rewards[-1]) if rewards else None,
        "change": _rounded(fmean(rewards[-COMPARED:]) - fmean(rewards[:COMPARED])) if rewards else None,
        "sparkline": thinned(line["values"]) if line else [],
        "signal": line["signal"] if line else "",
        "lead": alerts[0]["kind"] if alerts else None,
        "summary": alerts[0]["summary"] if alerts else None,
        "severity": alerts[0]["severity"] if alerts else None,
        "alerts": len(alerts),
        "counts": dict(counts),
        "gpu_hours": _gpu_hours(run, alerts),
        "last_seen": run.get("last_seen"),
        "started_at": run.get("started_at"),
        "archived": run.get("archived", False),
        "seeds": setting_of(run),
        "text": " ".join(words).lower(),
    }


def _gpu_hours(run: RunItem, alerts: Sequence[AlertItem]) -> float | None:
    """Return the hours of all ranks between the first alert that fires and the newest record."""
    first, seen = min((alert["opened_at"] for alert in alerts), default=None), run.get("last_seen")
    if first is None or seen is None:
        return None
    return round(max(0.0, seen - first) / 3600 * run.get("world_size", 1), 2)


def thinned(values: Sequence[float]) -> list[float | None]:
    """Return the newest values as a sparkline draws them: in four digits, None where a value is not finite."""
    kept = values[-SPARKLINE_POINTS:]
    return [_rounded(value) if math.isfinite(value) else None for value in kept]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
