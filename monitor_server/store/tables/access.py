"""API keys, and the audit log of every change."""

from sqlalchemy import Column, Float, Integer, LargeBinary, String, Table, Text

from monitor_server.store.tables.columns import metadata

__all__ = ["api_keys", "audit_entries", "recorded_settings"]

api_keys = Table(
    "api_keys",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String, nullable=False, unique=True),  # public: the beginning of the hash
    Column("name", String, nullable=False),
    Column("scope", String, nullable=False),
    Column("project", String),  # NULL: every project
    Column("hash", LargeBinary, nullable=False),  # SHA-256 of the key
    Column("session_secret", LargeBinary, nullable=False),  # signs the dashboard's cookies of this key
    Column("created_at", Float, nullable=False),
    Column("created_by", String, nullable=False),
    Column("last_used_at", Float),
    Column("expires_at", Float),
    Column("revoked_at", Float),
    Column("subject", String),  # the person from an OpenID Connect provider; NULL for other keys
)

audit_entries = Table(  # the log of all changes; retention removes old rows
    "audit_entries",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("by", String, nullable=False),
    Column("key_id", String),
    Column("project", String),
    Column("action", String, nullable=False),
    Column("target", String, nullable=False),
    Column("detail", Text, nullable=False),
)

recorded_settings = Table(  # the settings of the last start of a collector for each role, without secrets
    "recorded_settings",
    metadata,
    Column("role", String, primary_key=True),
    Column("shown", Text, nullable=False),  # JSON: the name of each setting with its value as text
)
