"""Views of the fleet that people save under a name."""

from sqlalchemy import Column, Float, Integer, String, Table, Text, UniqueConstraint

from monitor_server.store.tables.columns import metadata

__all__ = ["saved_views"]

saved_views = Table(
    "saved_views",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String, nullable=False, unique=True),
    Column("scope", String, nullable=False),  # the project of the view, as one text: names are unique in it
    Column("name", String, nullable=False),
    Column("project", String),  # NULL: saved by a key that may access every project
    Column("query", Text, nullable=False),
    Column("saved_at", Float, nullable=False),
    Column("saved_by", String, nullable=False),
    UniqueConstraint("scope", "name", name="uq_saved_views_scope_name"),
)
