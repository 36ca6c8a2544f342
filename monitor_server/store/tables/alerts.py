"""Alerts, their history, silences, the actions of trainers about them, and the state of the detectors."""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from monitor_server.store.tables.columns import arrival_number, metadata, run_key

__all__ = ["actions", "alert_history", "alerts", "detector_states", "silences"]

alerts = Table(
    "alerts",
    metadata,
    run_key(),
    arrival_number(),
    Column("id", String, nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("severity", String, nullable=False),
    Column("state", String, nullable=False),
    Column("phase", String, nullable=False),  # of the run, when the alert opened
    Column("opened_step", BigInteger, nullable=False),
    Column("severity_step", BigInteger, nullable=False),  # since this step it has its severity
    Column("warned_step", BigInteger),  # the first at which it was a warning or critical; NULL: it was neither
    Column("last_step", BigInteger, nullable=False),
    Column("resolved_step", BigInteger),
    Column("opened_at", Float, nullable=False),
    Column("summary", Text, nullable=False),
    Column("evidence", LargeBinary, nullable=False),  # JSON
    Column("acknowledged_at", Float),
    Column("acknowledged_by", String),
    Column("note", Text),  # of the person who acknowledged it
    Column("stage", String, nullable=False, server_default="firing"),  # `alerts.changes.stages` defines the stages
    Column("reopened_from", String),  # the alert of this run and kind that was resolved before
    Column("silence_id", String),  # the silence that covers it
    Column("silenced_until", Float),
    UniqueConstraint("run_id", "id"),
    Index(None, "number"),
    Index(None, "run_id", "state", "number"),
    Index(  # few rows of many
        "ix_alerts_pending",
        "number",
        sqlite_where=text("state = 'pending'"),
        postgresql_where=text("state = 'pending'"),
    ),
    Index(  # few rows of many, which are read every second
        "ix_alerts_silenced",
        "silence_id",
        sqlite_where=text("silence_id IS NOT NULL AND state <> 'resolved'"),
        postgresql_where=text("silence_id IS NOT NULL AND state <> 'resolved'"),
    ),
    Index(
        "uq_alerts_firing",
        "run_id",
        "kind",
        unique=True,
        sqlite_where=text("state = 'firing'"),
        postgresql_where=text("state = 'firing'"),
    ),
)

alert_history = Table(  # the changes of alerts, including comments; rows are appended
    "alert_history",
    metadata,
    run_key(),
    arrival_number(),
    Column("alert_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("at", Float, nullable=False),
    Column("change", String, nullable=False),
    Column("stage", String, nullable=False),  # after the change
    Column("step", BigInteger),
    Column("by", String),  # NULL: the collector
    Column("why", Text, nullable=False),
    Index(None, "run_id", "kind"),
    Index(None, "run_id", "alert_id"),
)

silences = Table(  # which alerts cause no notification, and for how long; NULL covers every value
    "silences",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String, nullable=False, unique=True),
    Column("project", String),
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), index=True),
    Column("kind", String),
    Column("alert_id", String),
    Column("severity", String, nullable=False),  # the highest severity that it covers
    Column("starts_at", Float, nullable=False),
    Column("ends_at", Float),  # NULL: it ends with the alert
    Column("reason", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("created_by", String, nullable=False),
    Column("applied_at", Float),  # when every alert that it covers at its start was silenced
    Column("ended_at", Float, index=True),
    Column("ended_by", String),  # NULL: ended by its time, or with its alert
)

actions = Table(  # the actions that trainers took about alerts, would have taken, or could not take
    "actions",
    metadata,
    run_key(),
    arrival_number(),
    Column("attempt", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),  # the rank that reported it
    Column("time", Float, nullable=False),
    Column("action", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("alert_id", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("forks", LargeBinary),  # JSON: the measured results of forks of the run; NULL if there were none
)

detector_states = Table(
    "detector_states",
    metadata,
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),  # the last step that the state includes
    Column("state", LargeBinary, nullable=False),  # msgpack
)
