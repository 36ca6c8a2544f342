"""By what runs are sorted, filtered and grouped, as expressions on the table of runs and on their firing alerts."""

from functools import cached_property
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, func, select

from monitor_server.settings import Deadlines
from monitor_server.store.repositories.run_status import status_column
from monitor_server.store.tables import alerts, phases, runs

__all__ = ["FIRING", "GROUPED_BY", "NUMBERS", "SEVERITIES", "SORTED_BY", "TEXTS", "WORST_PHASES", "RunOrder"]

TEXTS: Final = ("run", "name", "project", "owner", "setting", "phase", "status", "leading_alert")
NUMBERS: Final = (
    "alerts",
    "phase_steps",
    "phase_seconds",
    "last_step",
    "step_seconds",
    "reward",
    "reward_change",
    "last_seen",
    "started_at",
    "alert_gpu_hours",
)
SORTED_BY: Final = ("urgency", *TEXTS, *NUMBERS)
GROUPED_BY: Final = ("project", "phase", "status", "setting", "tag", "owner")
SEVERITIES: Final = ("critical", "warning", "info")
WORST_PHASES: Final = ("collapsed", "acceleration", "decay", "stagnation", "healthy", "warmup", "unknown")

_SEVERITY = case({name: place for place, name in enumerate(SEVERITIES)}, value=alerts.c.severity, else_=len(SEVERITIES))
_STATUS = {"lost": 0, "stalled": 0, "running": 1, "stopped": 2, "finished": 3}
_URGENT_PHASES: Final = 3  # the phases of a run that fails; the order of the others says nothing about urgency


def _count(severity: str) -> ColumnElement[int]:
    return func.sum(case((alerts.c.severity == severity, 1), else_=0)).label(severity)


FIRING: Final = (
    select(
        alerts.c.run_id,
        func.count().label("alerts"),
        *(_count(severity) for severity in SEVERITIES),
        func.min(_SEVERITY).label("gravest"),
        func.min(alerts.c.opened_at).label("first_at"),
    )
    .where(alerts.c.state == "firing")
    .group_by(alerts.c.run_id)
    .subquery("firing")
)
"""The firing alerts of each run that has any, counted."""


class RunOrder:
    """By what runs are sorted, filtered and grouped at ``now``, for a query that joins `FIRING` from the outside."""

    def __init__(self, *, now: float, deadlines: Deadlines) -> None:
        self.status = status_column(now, deadlines)
        is_silent = self.status.in_(("stalled", "lost"))
        is_known = and_(runs.c.phase.in_(WORST_PHASES), ~and_(is_silent, runs.c.phase != "collapsed"))
        self.phase = case((is_known, runs.c.phase), else_="unknown")  # as `alerts.liveness.shown_phase`
        self.worst_phase = case({name: place for place, name in enumerate(WORST_PHASES)}, value=self.phase)

    @cached_property
    def urgency(self) -> ColumnElement[int]:
        """Return a number that is smaller for a run that needs somebody sooner.

        Ended runs are last. Then the most severe firing alert counts, then silence, then the phase.
        """
        has_ended = case((self.status.in_(("finished", "stopped")), 1), else_=0)
        status = case(_STATUS, value=self.status)
        phase = case((self.worst_phase < _URGENT_PHASES, self.worst_phase), else_=_URGENT_PHASES)
        return 1000 * has_ended + 100 * func.coalesce(FIRING.c.gravest, 4) + 10 * status + phase

    def sort_key(self, name: str) -> ColumnElement[Any]:
        """Return what runs are sorted by under one of the names of `SORTED_BY`; texts without regard to case."""
        return func.lower(self.text(name)) if name in TEXTS else self.number(name)

    def text(self, name: str) -> ColumnElement[str]:
        """Return a column of `TEXTS`."""
        columns: dict[str, ColumnElement[str]] = {
            "run": func.coalesce(runs.c.title, runs.c.name),
            "name": runs.c.name,
            "project": runs.c.project,
            "owner": runs.c.tagged_owner,
            "setting": runs.c.setting,
            "phase": self.phase,
            "status": self.status,
            "leading_alert": _leading_alert(),
        }
        return columns[name]

    def number(self, name: str) -> ColumnElement[float]:
        """Return a column of `NUMBERS`, or the urgency."""
        steps = runs.c.last_step - _phase_begin() + 1
        silent = case((runs.c.last_seen > FIRING.c.first_at, runs.c.last_seen - FIRING.c.first_at), else_=0.0)
        columns: dict[str, ColumnElement[Any]] = {
            "urgency": self.urgency,
            "alerts": func.coalesce(FIRING.c.alerts, 0),
            "phase_steps": steps,
            "phase_seconds": steps * runs.c.step_seconds,
            "alert_gpu_hours": case((FIRING.c.first_at.is_not(None), silent / 3600.0 * runs.c.world_size)),
        }
        return columns[name] if name in columns else runs.c[name]

    def group(self, name: str) -> ColumnElement[Any]:
        """Return what runs are grouped by under one of the names of `GROUPED_BY`."""
        return runs.c.first_tag if name == "tag" else self.text(name)


def _phase_begin() -> ColumnElement[int]:
    begin = select(func.max(phases.c.from_step)).where(phases.c.run_id == runs.c.id, phases.c.to_step.is_(None))
    return begin.scalar_subquery()


def _leading_alert() -> ColumnElement[str]:
    firing = select(alerts.c.kind).where(alerts.c.run_id == runs.c.id, alerts.c.state == "firing")
    return firing.order_by(_SEVERITY, alerts.c.opened_step.desc(), alerts.c.number).limit(1).scalar_subquery()
