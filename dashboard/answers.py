"""The shapes of the collector's answers, as docs/api.md states them, and which of them means more trouble.

Types and pure functions only; who asks for the answers is `dashboard.api_client`.
"""

from collections.abc import Iterable
from typing import Final, TypedDict

__all__ = ["Alert", "PhaseSpan", "Run", "Series", "Sparkline", "alerts_of", "by_trouble", "firing"]

SEVERITY_ORDER: Final = {"critical": 0, "warning": 1, "info": 2}
STATUS_ORDER: Final = {"lost": 0, "stalled": 0, "running": 1, "stopped": 2, "finished": 3}
PHASE_ORDER: Final = {"collapsed": 0, "acceleration": 1, "decay": 2}


class Sparkline(TypedDict):
    """The last values of one signal, oldest first; non-finite floats where the signal was not finite."""

    signal: str
    values: list[float]


class Run(TypedDict, total=False):
    """A run; ``alerts`` counts those that fire, ``config`` and ``signals`` come only when one run is asked for."""

    id: str
    project: str
    name: str
    status: str
    phase: str
    attempt: int
    last_step: int | None
    last_seen: float | None
    started_at: float | None
    world_size: int
    capability: str
    source: str
    alerts: int
    sparkline: Sparkline | None
    config: dict[str, object] | None
    signals: list[str]


class Series(TypedDict):
    """One signal over steps, the newest attempt's value at each step."""

    signal: str
    steps: list[int]
    values: list[float]


class PhaseSpan(TypedDict):
    """A phase of a run; ``to_step`` is None for the phase the run is in."""

    phase: str
    from_step: int
    to_step: int | None


class Alert(TypedDict, total=False):
    """A finding's life, with its arithmetic in ``evidence``."""

    id: str
    run_id: str
    run: str
    project: str
    kind: str
    severity: str
    state: str
    phase: str
    opened_step: int
    last_step: int | None
    resolved_step: int | None
    opened_at: float
    summary: str
    evidence: dict[str, object]


def firing(alerts: Iterable[Alert]) -> list[Alert]:
    """Give the alerts that fire, gravest first, then newest first."""
    held = [alert for alert in alerts if alert["state"] == "firing"]
    return sorted(held, key=lambda alert: (SEVERITY_ORDER.get(alert["severity"], 3), -alert["opened_step"]))


def alerts_of(alerts: Iterable[Alert]) -> dict[str, list[Alert]]:
    """Group alerts by the id of their run, order kept."""
    grouped: dict[str, list[Alert]] = {}
    for alert in alerts:
        grouped.setdefault(alert["run_id"], []).append(alert)
    return grouped


def by_trouble(runs: Iterable[Run], alerts: Iterable[Alert]) -> list[Run]:
    """Sort runs, trouble first: gravest firing alert, then silence, then phase, then the newest sign of life."""
    gravest = {run_id: SEVERITY_ORDER.get(held[0]["severity"], 3) for run_id, held in alerts_of(firing(alerts)).items()}

    def trouble(run: Run) -> tuple[float, ...]:
        ended = run["status"] in {"finished", "stopped"}
        return (
            ended,
            gravest.get(run["id"], 4),
            STATUS_ORDER.get(run["status"], 1),
            PHASE_ORDER.get(run["phase"], 3),
            -(run.get("last_seen") or 0.0),
        )

    return sorted(runs, key=trouble)
