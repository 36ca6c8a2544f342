"""Silences: which alerts cause no notification, and for how long."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from monitor_server.detection.protocol import Severity
from monitor_server.store.repositories.alerts import Alert, alert_of
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.tables import alerts, runs, silences

__all__ = ["Silence", "Silences"]

_SILENCE = silences.c
# A silence is applied once more this many seconds after its beginning. A step that is committed at the moment at which
# it is applied does not see it, and its alert is not seen; no such transaction takes longer.
SETTLING_SECONDS: Final = 5.0
_IS_OPEN_ALERT = alerts.c.state.in_(["pending", "firing"])
_IN_FORCE = _SILENCE.ended_at.is_(None)
_NOW = bindparam("now", type_=Float)
_IS_UNAPPLIED = or_(
    _SILENCE.applied_at.is_(None) & (_SILENCE.starts_at <= _NOW),
    (_SILENCE.applied_at < _SILENCE.starts_at + SETTLING_SECONDS) & (_SILENCE.starts_at + SETTLING_SECONDS <= _NOW),
)
_IS_RELEASED = and_(
    alerts.c.state != literal_column("'resolved'"),  # as text: SQLite uses no partial index for a parameter
    alerts.c.silence_id.is_not(None),
    alerts.c.silence_id.not_in(select(_SILENCE.id).where(_IN_FORCE)),
)
# Built once: building these takes SQLAlchemy longer than SQLite takes to answer them, and each tick uses them.
# A silence of one alert, and the step that resolves the alert, do not see each other if they are committed at once.
_IS_OVER = or_(_SILENCE.ends_at <= _NOW, exists().where(alerts.c.id == _SILENCE.alert_id, alerts.c.state == "resolved"))
_DUE = select(_SILENCE.id).where(_IN_FORCE, or_(_IS_UNAPPLIED, _IS_OVER)).limit(1)
_END_DUE = update(silences).where(_IN_FORCE, _IS_OVER).values(ended_at=_NOW)
_RELEASED = (
    select(alerts.c.id)
    .join(runs, runs.c.id == alerts.c.run_id)
    .where(_IS_RELEASED, runs.c.deleted_at.is_(None))
    .limit(1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A silence. It covers every value of the fields that it leaves out.

    Attributes:
        severity: The highest severity that it covers.
        starts_at: In seconds since the epoch.
        ends_at: None for a silence of one alert that ends when the alert is resolved.
        applied_at: The time at which every alert that it covered was silenced for the last time.
        ended_by: The person who ended it; None if its time ended, or its alert.
    """

    id: str
    project: str | None
    run_id: str | None
    kind: str | None
    alert_id: str | None
    severity: str
    starts_at: float
    ends_at: float | None
    reason: str
    created_at: float
    created_by: str
    applied_at: float | None = None
    ended_at: float | None = None
    ended_by: str | None = None

    def covers(self, alert: Alert) -> bool:
        """Whether it covers an alert of a run to which it applies."""
        return (
            self.alert_id in (None, alert.id)
            and self.kind in (None, alert.kind)
            and Severity(alert.severity).rank <= Severity(self.severity).rank
        )


class Silences:
    """Reads and writes silences."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, silence: Silence) -> None:
        """Write a new silence."""
        self._connection.execute(insert(silences), asdict(silence))

    def find(self, silence_id: str) -> Silence | None:
        """Return one silence, or None."""
        row = self._connection.execute(select(silences).where(_SILENCE.id == silence_id)).mappings().one_or_none()
        return None if row is None else _silence(row)

    def page(
        self, *, limit: int, now: float, state: str | None = None, project: str | None = None, before: int | None = None
    ) -> list[dict[str, Any]]:
        """Return silences of one project or of all, the newest first, before the silence ``before``.

        Args:
            limit: The largest number of silences.
            now: Seconds since the epoch.
            state: Only silences that are ``scheduled``, ``active`` or ``ended``.
            project: Only silences of this project.
            before: Only silences with a lower number.
        """
        conditions = {
            "scheduled": _IN_FORCE & (_SILENCE.starts_at > now),
            "active": _IN_FORCE & (_SILENCE.starts_at <= now),
            "ended": _SILENCE.ended_at.is_not(None),
        }
        query = select(silences).order_by(_SILENCE.number.desc()).limit(limit)
        if state is not None:
            query = query.where(conditions[state])
        if project is not None:
            query = query.where(_SILENCE.project == project)
        if before is not None:
            query = query.where(_SILENCE.number < before)
        return [row_fields(row) for row in self._connection.execute(query).mappings()]

    def of_run(self, run_id: str, *, now: float) -> list[Silence]:
        """Return the silences in force that apply to a run, the one that lasts longest first."""
        project = select(runs.c.project).where(runs.c.id == run_id).scalar_subquery()
        query = select(silences).where(
            _IN_FORCE,
            _SILENCE.starts_at <= now,
            or_(_SILENCE.ends_at.is_(None), _SILENCE.ends_at > now),
            or_(_SILENCE.run_id.is_(None), _SILENCE.run_id == run_id),
            or_(_SILENCE.project.is_(None), _SILENCE.project == project),
        )
        found = [_silence(row) for row in self._connection.execute(query).mappings()]
        return sorted(found, key=lambda silence: -(silence.ends_at or float("inf")))

    def count_in_force(self, project: str | None) -> int:
        """Return the number of silences of a project, or of those for all projects, that have not ended."""
        query = select(func.count()).where(_IN_FORCE, _SILENCE.project.is_not_distinct_from(project))
        return self._connection.execute(query).scalar_one()

    def has_due(self, *, now: float) -> bool:
        """Return whether a silence begins or ends now, or is not applied to every alert yet."""
        is_due = self._connection.execute(_DUE, {"now": now}).first() is not None
        return is_due or self._connection.execute(_RELEASED).first() is not None

    def end_due(self, *, now: float) -> None:
        """End the silences whose time is over, or whose alert is resolved."""
        self._connection.execute(_END_DUE, {"now": now})

    def end(self, silence_id: str, *, by: str, now: float) -> None:
        """End a silence that is in force; a silence that has ended stays as it is."""
        here = _IN_FORCE & (_SILENCE.id == silence_id)
        self._connection.execute(update(silences).where(here), {"ended_at": now, "ended_by": by})

    def has_old(self, *, before: float) -> bool:
        """Return whether a silence ended before a time."""
        query = select(_SILENCE.number).where(_SILENCE.ended_at < before).limit(1)
        return self._connection.execute(query).first() is not None

    def remove_old(self, *, before: float, limit: int) -> int:
        """Remove some silences that ended before a time, and return their number."""
        some = select(_SILENCE.number).where(_SILENCE.ended_at < before).limit(limit)
        return self._connection.execute(delete(silences).where(_SILENCE.number.in_(some))).rowcount

    def remove_project(self, project: str) -> None:
        """Remove the silences of a project."""
        self._connection.execute(delete(silences).where(_SILENCE.project == project))

    def remove_of_alerts(self, run_id: str) -> None:
        """Remove the silences of single alerts of a run that is being deleted: they have no run, and never end."""
        of_run = select(alerts.c.id).where(alerts.c.run_id == run_id)
        self._connection.execute(delete(silences).where(_SILENCE.alert_id.in_(of_run)))

    def limit_times(self, now: float) -> None:
        """Move silences that were made after ``now`` to ``now``, without a change of their duration."""
        ahead = _SILENCE.created_at - now
        values = {"starts_at": _SILENCE.starts_at - ahead, "ends_at": _SILENCE.ends_at - ahead, "created_at": now}
        self._connection.execute(update(silences).where(_SILENCE.created_at > now).values(values))

    def end_of_alert(self, alert_id: str, *, now: float) -> None:
        """End the silences of one alert, because it is resolved."""
        here = _IN_FORCE & (_SILENCE.alert_id == alert_id)
        self._connection.execute(update(silences).where(here), {"ended_at": now})

    def unapplied(self, *, now: float) -> list[Silence]:
        """Return the silences that have begun and are not yet applied to every alert, or are applied once more."""
        query = select(silences).where(_IN_FORCE, _IS_UNAPPLIED).order_by(_SILENCE.number)
        return [_silence(row) for row in self._connection.execute(query, {"now": now}).mappings()]

    def mark_applied(self, silence_id: str, *, now: float) -> None:
        """Record that every alert that a silence covers is silenced."""
        self._connection.execute(update(silences).where(_SILENCE.id == silence_id), {"applied_at": now})

    def covered_alerts(self, silence: Silence, *, limit: int) -> list[Alert]:
        """Return open alerts that a silence covers and that no silence has silenced yet."""
        conditions: list[ColumnElement[bool]] = [
            _IS_OPEN_ALERT,
            alerts.c.silence_id.is_(None),
            alerts.c.severity.in_([str(each) for each in Severity if each.rank <= Severity(silence.severity).rank]),
        ]
        named = (
            (runs.c.project, silence.project),
            (alerts.c.run_id, silence.run_id),
            (alerts.c.kind, silence.kind),
            (alerts.c.id, silence.alert_id),
        )
        conditions += [column == wanted for column, wanted in named if wanted is not None]
        return self._alerts(and_(*conditions), limit=limit)

    def released_alerts(self, *, limit: int) -> list[Alert]:
        """Return open alerts whose silence has ended, or was deleted with its run."""
        return self._alerts(_IS_RELEASED, limit=limit)

    def _alerts(self, condition: ColumnElement[bool], *, limit: int) -> list[Alert]:
        # A run that is being deleted cannot be locked, so its alerts would be found again and again.
        query = select(alerts).join(runs, runs.c.id == alerts.c.run_id).where(condition, runs.c.deleted_at.is_(None))
        query = query.order_by(alerts.c.run_id, alerts.c.number).limit(limit)
        return [alert_of(row) for row in self._connection.execute(query).mappings()]


def _silence(row: Mapping[Any, Any]) -> Silence:
    return Silence(**{name: row[name] for name in Silence.__slots__})
