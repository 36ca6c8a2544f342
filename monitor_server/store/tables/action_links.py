"""Signed links in notifications, by which people act without signing in, and the secrets that sign them."""

from sqlalchemy import Column, Float, ForeignKey, LargeBinary, String, Table

from monitor_server.store.tables.columns import metadata

__all__ = ["action_links", "link_secrets"]

link_secrets = Table(  # one row for each rotation; the links of an ended secret are invalid
    "link_secrets",
    metadata,
    Column("id", String, primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("ended_at", Float),
)

action_links = Table(  # the link itself is not stored
    "action_links",
    metadata,
    Column("hash", String, primary_key=True),  # SHA-256 of the link's token, in hexadecimal
    Column("secret_id", String, nullable=False),
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("alert_id", String, nullable=False),
    Column("action", String, nullable=False),
    Column("channel", String, nullable=False),
    Column("message_id", String, nullable=False, index=True),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False, index=True),
    Column("used_at", Float),  # a link is used once: only the first update of it finds NULL here
)
