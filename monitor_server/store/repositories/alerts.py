"""Alerts and their states."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    Label,
    String,
    TypeDecorator,
    bindparam,
    exists,
    func,
    insert,
    literal_column,
    select,
    type_coerce,
    update,
)

from monitor_server.detection.suspects import INSTRUMENT_KINDS
from monitor_server.store.encoding.stored_json import read_object
from monitor_server.store.repositories.numbering import number_rows
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.statements import in_parts
from monitor_server.store.tables import alert_history, alerts, attempts, runs
from trainer_hooks.wire import spell_non_finite

__all__ = ["OPEN_INSTRUMENT_KINDS", "Alert", "Alerts", "alert_of"]


# Built once: building these queries takes SQLAlchemy longer than SQLite takes to answer them, and each batch uses them.
_OF_RUN = select(*[column for column in alerts.c if column.name != "number"]).where(alerts.c.run_id == bindparam("run"))
_FIRING = _OF_RUN.where(alerts.c.state == "firing").order_by(alerts.c.number)
# A run may have thousands of resolved alerts. SQLite would read all of them in the order of their numbers to avoid
# sorting a few, unless the order is that of an expression.
_OPEN = _OF_RUN.where(alerts.c.state.in_(["pending", "firing"])).order_by(alerts.c.number + 0)

# As text: SQLite uses no partial index for a parameter.
_FIRES = alerts.c.state == literal_column("'firing'")
_IS_PENDING = alerts.c.state == literal_column("'pending'")
# Sorting so many takes milliseconds.
FEW = 1_000

_HAS_FIRED = exists().where(
    alert_history.c.run_id == alerts.c.run_id,
    alert_history.c.alert_id == alerts.c.id,
    alert_history.c.stage.not_in(["pending", "resolved"]),
)
_PASSED = (
    select(*[column for column in alerts.c if column.name != "number"])
    .where(
        alerts.c.run_id == bindparam("run"),
        alerts.c.state == "resolved",
        alerts.c.opened_at >= bindparam("since"),
        alerts.c.opened_at
        >= select(attempts.c.first_seen)
        .where(attempts.c.run_id == bindparam("run"), attempts.c.attempt == bindparam("attempt"))
        .scalar_subquery(),
        _HAS_FIRED,
    )
    .order_by(alerts.c.number.desc())
    .limit(bindparam("most"))
)


class _Kinds(TypeDecorator[tuple[str, ...]]):
    """Kinds of alerts, which the database joins by commas."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[str, ...]:  # noqa: ARG002 - any
        """Return the kinds, none where the database found none."""
        return tuple(value.split(",")) if value else ()


_OTHER = alerts.alias("other")
OPEN_INSTRUMENT_KINDS: Label[tuple[str, ...]] = type_coerce(
    select(func.aggregate_strings(_OTHER.c.kind, ","))
    .where(
        _OTHER.c.run_id == alerts.c.run_id,
        _OTHER.c.state == "firing",
        _OTHER.c.kind.in_(sorted(INSTRUMENT_KINDS)),
        alerts.c.state != "resolved",
    )
    .correlate(alerts)
    .scalar_subquery(),
    _Kinds(),
).label("open_instrument_kinds")
"""The kinds of alerts that fire on the same run while an alert is open and make its numbers doubtful."""

_VIEW = (
    select(alerts, runs.c.name.label("run"), runs.c.project, OPEN_INSTRUMENT_KINDS)
    .join(runs, runs.c.id == alerts.c.run_id)
    .where(runs.c.deleted_at.is_(None))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One opening of an alert; a finding that comes back opens another.

    A finding may become more severe while it holds: ``severity_step`` is the step since which the alert has its
    severity.

    Attributes:
        warned_step: The first step at which it was a warning or critical; None while it was neither. Of an alert that
            became more severe before this was stored it is ``severity_step``.
        state: ``pending``, ``firing`` or ``resolved``; it follows from ``stage``.
        stage: A `Stage` of `monitor_server.alerts.changes.stages`.
        reopened_from: The newest resolved alert of this run and kind, when this one opened.
        silence_id: The silence that covers it, or that covered it when it was resolved.
        silenced_until: The end of that silence; None if it ends with the alert.
    """

    id: str
    run_id: str
    kind: str
    severity: str
    phase: str
    opened_step: int
    severity_step: int
    last_step: int
    opened_at: float
    summary: str
    evidence: Mapping[str, Any]
    state: str = "firing"
    warned_step: int | None = None
    resolved_step: int | None = None
    acknowledged_at: float | None = None
    acknowledged_by: str | None = None
    note: str | None = None
    stage: str = "firing"
    reopened_from: str | None = None
    silence_id: str | None = None
    silenced_until: float | None = None


class Alerts:
    """Reads and writes alerts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def firing(self, run_id: str) -> list[Alert]:
        """Return the alerts that fire on a run, the oldest first."""
        return [alert_of(row) for row in self._connection.execute(_FIRING, {"run": run_id}).mappings()]

    def firing_kinds(self, run_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the kinds of the alerts that fire on each of the runs, the oldest first, by the run's id."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(run_ids, ())
        for some in in_parts(run_ids):
            query = select(alerts.c.run_id, alerts.c.kind).where(alerts.c.run_id.in_(some), alerts.c.state == "firing")
            for run_id, kind in self._connection.execute(query.order_by(alerts.c.number + 0)):
                found[run_id] += (kind,)
        return found

    def fires(self, kind: str, *, project: str | None) -> bool:
        """Return whether an alert of this kind fires on a run of a project, or of any project."""
        query = _VIEW.where(alerts.c.state == "firing", alerts.c.kind == kind).limit(1)
        if project is not None:
            query = query.where(runs.c.project == project)
        return self._connection.execute(query).first() is not None

    def open(self, run_id: str) -> list[Alert]:
        """Return the alerts of a run that fire or are pending, the oldest first."""
        return [alert_of(row) for row in self._connection.execute(_OPEN, {"run": run_id}).mappings()]

    def passed(self, run_id: str, *, attempt: int, since: float, limit: int) -> list[Alert]:
        """Return the newest alerts of a run that fired, were resolved, and opened since a time and in an attempt."""
        asked = {"run": run_id, "attempt": attempt, "since": since, "most": limit}
        return [alert_of(row) for row in self._connection.execute(_PASSED, asked).mappings()]

    def newest_resolved(self, run_id: str, kind: str) -> str | None:
        """Return the id of the newest resolved alert of a run and a kind, or None."""
        query = select(alerts.c.id).where(
            alerts.c.run_id == run_id, alerts.c.kind == kind, alerts.c.state == "resolved"
        )
        return self._connection.execute(query.order_by(alerts.c.number.desc()).limit(1)).scalar()

    def add(self, alert: Alert) -> None:
        """Write a new alert."""
        self._connection.execute(insert(alerts), number_rows(self._connection, alerts, [_values(alert)]))

    def save(self, alert: Alert) -> None:
        """Write an alert back."""
        self._connection.execute(
            update(alerts).where(alerts.c.run_id == alert.run_id, alerts.c.id == alert.id), _values(alert)
        )

    def find(self, alert_id: str) -> Alert | None:
        """Return one alert, or None."""
        row = self.view(alert_id)
        return None if row is None else alert_of(row)

    def view(self, alert_id: str) -> dict[str, Any] | None:
        """Return one alert with its run's name and project, or None."""
        row = self._connection.execute(_VIEW.where(alerts.c.id == alert_id)).mappings().one_or_none()
        return None if row is None else row_fields(row)

    def project(self, alert_id: str) -> str | None:
        """Return the project of an alert's run, or None if no alert has this id."""
        query = select(runs.c.project).join(alerts, alerts.c.run_id == runs.c.id).where(alerts.c.id == alert_id)
        return self._connection.scalar(query)

    def page(
        self,
        *,
        limit: int,
        before: int | None = None,
        run_id: str | None = None,
        state: str | None = None,
        stage: str | None = None,
        severity: str | None = None,
        project: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return alerts with their run's name and project, the newest first, before the one numbered ``before``."""
        query, number = _VIEW, alerts.c.number + 0
        # A few are found by an index and sorted, as for `_OPEN`; SQLite would read all alerts in the order of numbers.
        if state == "firing" or stage not in (None, "pending", "resolved"):
            query = query.where(_FIRES)
        elif "pending" in (state, stage):
            query = query.where(_IS_PENDING)
        elif run_id is None and project is not None and self._has_few(project):
            query = query.where(_is_of_project(project))
        else:
            number = alerts.c.number
        query = query.order_by(number.desc()).limit(limit)
        if before is not None:
            query = query.where(number < before)
        wanted_values = (
            (alerts.c.run_id, run_id),
            (alerts.c.state, state),
            (alerts.c.stage, stage),
            (alerts.c.severity, severity),
            (runs.c.project, project),
        )
        for column, wanted in wanted_values:
            if wanted is not None:
                query = query.where(column == wanted)
        rows = self._connection.execute(query).mappings()
        return [row_fields(row) for row in rows]

    def _has_few(self, project: str) -> bool:
        some = select(alerts.c.number).where(_is_of_project(project))
        return self._connection.scalar(select(func.count()).select_from(some.limit(FEW).subquery())) != FEW


def _is_of_project(project: str) -> ColumnElement[bool]:
    """Return whether an alert belongs to a run of a project; SQLite reads the runs first."""
    return alerts.c.run_id.in_(select(runs.c.id).where(runs.c.project == project))


def _values(alert: Alert) -> Mapping[str, Any]:
    return asdict(alert) | {"evidence": json.dumps(spell_non_finite(alert.evidence), default=str).encode()}


def alert_of(row: Mapping[Any, Any]) -> Alert:
    """Build an alert from a row that has its columns, and possibly further ones."""
    fields = {name: row[name] for name in Alert.__slots__}
    return Alert(**fields | {"evidence": read_object(row["evidence"])})
