"""Actions that people have requested from trainers."""

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, String, Table, Text, text

from monitor_server.store.tables.columns import metadata

__all__ = ["action_requests"]

action_requests = Table(
    "action_requests",
    metadata,
    Column("id", String, primary_key=True),
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("alert_id", String, nullable=False),
    Column("action", String, nullable=False),
    Column("attempt", BigInteger, nullable=False),  # trainers of other attempts do not receive it
    Column("requested_at", Float, nullable=False),
    Column("requested_by", String, nullable=False),
    Column("note", Text, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("state", String, nullable=False),  # `action_requests.requesting` defines the states
    Column("changed_at", Float, nullable=False),
    Column("step", BigInteger),  # of the trainer's answer
    Column("phase", String),  # of the run, when the trainer answered
    Column("detail", Text, nullable=False),  # of the trainer's answer
    Column("followed_at", Float),  # when the outcome was recorded
    Index(  # at most one request for an action waits for its answer at a time
        "uq_action_requests_open",
        "run_id",
        "action",
        unique=True,
        sqlite_where=text("state IN ('requested', 'received')"),
        postgresql_where=text("state IN ('requested', 'received')"),
    ),
    Index(
        "ix_action_requests_unfollowed",
        "state",
        sqlite_where=text("followed_at IS NULL"),
        postgresql_where=text("followed_at IS NULL"),
    ),
)
