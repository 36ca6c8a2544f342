"""Settings that people change in the dashboard or by the API: channels and routes, and the retention of data."""

from sqlalchemy import Column, Float, Integer, LargeBinary, String, Table, Text

from monitor_server.store.tables.columns import metadata

__all__ = ["notification_documents", "retention_limits"]

notification_documents = Table(  # each save is a row, and the row of the highest version is in force
    "notification_documents",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("saved_at", Float, nullable=False),
    Column("saved_by", String, nullable=False),
    Column("changes", Text, nullable=False),  # in words, without secrets
    Column("document", LargeBinary, nullable=False),  # JSON with the addresses and secrets of the channels
)

retention_limits = Table(  # the limits that no variable of the environment sets
    "retention_limits",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", Float, nullable=False),
    Column("saved_at", Float, nullable=False),
    Column("saved_by", String, nullable=False),
)
