"""The values for sorting, filtering and grouping runs, as expressions on the tables of runs and of firing alerts."""

from functools import cached_property
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, func, or_, select

from monitor_server.detection.protocol import MOST_SEVERE_FIRST
from monitor_server.settings import Deadlines
from monitor_server.store.repositories.run_status import ENDED, SILENT, status_column
from monitor_server.store.tables import alerts, phases, runs

__all__ = [
    "NUMBERS",
    "SORTED_BY",
    "TEXTS",
    "WORST_PHASES",
    "RunOrder",
    "firing_count",
    "worst_severity",
]

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
WORST_PHASES: Final = ("collapsed", "acceleration", "decay", "stagnation", "healthy", "warmup", "unknown")

_SEVERITY = case(
    {name: place for place, name in enumerate(MOST_SEVERE_FIRST)}, value=alerts.c.severity, else_=len(MOST_SEVERE_FIRST)
)
_STATUS = {"lost": 0, "stalled": 0, "running": 1, "stopped": 2, "finished": 3}
_URGENT_PHASES: Final = 3  # the phases of a failing run; the order of the other phases does not show urgency


class RunOrder:
    """The values for sorting, filtering and grouping runs at ``now``."""

    def __init__(self, *, now: float, deadlines: Deadlines) -> None:
        self.status = status_column(now, deadlines)
        is_blind = or_(self.status.in_(SILENT), runs.c.quarantined_at.is_not(None))
        is_known = and_(runs.c.phase.in_(WORST_PHASES), ~and_(is_blind, runs.c.phase != "collapsed"))
        self.phase = case((is_known, runs.c.phase), else_="unknown")  # the same as `alerts.liveness.shown_phase`
        self.worst_phase = case({name: place for place, name in enumerate(WORST_PHASES)}, value=self.phase)

    @cached_property
    def urgency(self) -> ColumnElement[int]:
        """Return a number that is smaller for a more urgent run.

        Ended runs are last. Then the most severe firing alert counts, then silence, then the phase.
        """
        has_ended = case((self.status.in_(ENDED), 1), else_=0)
        status = case(_STATUS, value=self.status)
        phase = case((self.worst_phase < _URGENT_PHASES, self.worst_phase), else_=_URGENT_PHASES)
        return 1000 * has_ended + 100 * worst_severity() + 10 * status + phase

    def sort_key(self, name: str) -> ColumnElement[Any]:
        """Return the sort value for a name of `SORTED_BY`; texts are compared without regard to case."""
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
        # Nothing is known of how long a run has been in a phase that is shown instead of its newest one.
        steps = case((self.phase == runs.c.phase, runs.c.last_step - _phase_begin() + 1))
        heard = runs.c.last_seen - _of_firing(func.min(alerts.c.opened_at))
        columns: dict[str, ColumnElement[Any]] = {
            "urgency": self.urgency,
            "alerts": _of_firing(func.count()),
            "phase_steps": steps,
            "phase_seconds": steps * runs.c.step_seconds,
            "alert_gpu_hours": case((heard < 0, 0.0), else_=heard) / 3600.0 * runs.c.world_size,
        }
        return columns[name] if name in columns else runs.c[name]

    def group(self, name: str) -> ColumnElement[Any]:
        """Return the group value for a name by which the API groups runs."""
        return runs.c.first_tag if name == "tag" else self.text(name)


def firing_count(severity: str) -> ColumnElement[int]:
    """Return the number of firing alerts of a severity for a run."""
    return _of_firing(func.count(case((alerts.c.severity == severity, 1))))


def worst_severity() -> ColumnElement[int]:
    """Return the place in `MOST_SEVERE_FIRST` of a run's most severe firing alert; a higher number if there is none."""
    return func.coalesce(_of_firing(func.min(_SEVERITY)), len(MOST_SEVERE_FIRST) + 1)


# One index look-up for each run: without statistics, PostgreSQL would join the counted alerts run by run.
def _of_firing(aggregate: ColumnElement[Any]) -> ColumnElement[Any]:
    return select(aggregate).where(alerts.c.run_id == runs.c.id, alerts.c.state == "firing").scalar_subquery()


def _phase_begin() -> ColumnElement[int]:
    begin = select(func.max(phases.c.from_step)).where(phases.c.run_id == runs.c.id, phases.c.to_step.is_(None))
    return begin.scalar_subquery()


def _leading_alert() -> ColumnElement[str]:
    firing = select(alerts.c.kind).where(alerts.c.run_id == runs.c.id, alerts.c.state == "firing")
    return firing.order_by(_SEVERITY, alerts.c.opened_step.desc(), alerts.c.number).limit(1).scalar_subquery()
