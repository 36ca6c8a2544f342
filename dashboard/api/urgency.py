"""Ranks runs and alerts by their urgency: which come first in a list."""

from collections.abc import Iterable
from typing import Final

from dashboard.api.types.alerts import AlertItem
from dashboard.api.types.runs import RunItem

__all__ = ["PHASE_ORDER", "SEVERITY_ORDER", "STATUS_ORDER", "alerts_of", "by_trouble", "firing"]

SEVERITY_ORDER: Final = {"critical": 0, "warning": 1, "info": 2}
STATUS_ORDER: Final = {"lost": 0, "stalled": 0, "running": 1, "stopped": 2, "finished": 3}
PHASE_ORDER: Final = {"collapsed": 0, "acceleration": 1, "decay": 2}


def firing(alerts: Iterable[AlertItem]) -> list[AlertItem]:
    """Return the firing alerts, most severe first, then newest first."""
    held = [alert for alert in alerts if alert["state"] == "firing"]
    return sorted(held, key=lambda alert: (SEVERITY_ORDER.get(alert["severity"], 3), -alert["opened_step"]))


def alerts_of(alerts: Iterable[AlertItem]) -> dict[str, list[AlertItem]]:
    """Group alerts by the id of their run, in the given order."""
    grouped: dict[str, list[AlertItem]] = {}
    for alert in alerts:
        grouped.setdefault(alert["run_id"], []).append(alert)
    return grouped


def by_trouble(runs: Iterable[RunItem], alerts: Iterable[AlertItem]) -> list[RunItem]:
    """Sort runs, most urgent first: severest firing alert, then silence, then phase, then the newest record."""
    gravest = {run_id: SEVERITY_ORDER.get(held[0]["severity"], 3) for run_id, held in alerts_of(firing(alerts)).items()}

    def trouble(run: RunItem) -> tuple[float, ...]:
        ended = run["status"] in {"finished", "stopped"}
        return (
            ended,
            gravest.get(run["id"], 4),
            STATUS_ORDER.get(run["status"], 1),
            PHASE_ORDER.get(run["phase"], 3),
            -(run.get("last_seen") or 0.0),
        )

    return sorted(runs, key=trouble)
