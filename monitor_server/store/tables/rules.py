"""The user's own rules, and their state for each run."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Table,
    UniqueConstraint,
)

from monitor_server.store.tables.columns import metadata, run_key

__all__ = ["rule_revisions", "rule_states", "rules"]

rules = Table(
    "rules",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String, nullable=False, unique=True),
    # The projects and runs to which the rule applies, as one text: names are unique in it.
    Column("scope", String, nullable=False),
    Column("name", String, nullable=False),
    Column("project", String, index=True),  # NULL: every project
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), index=True),
    Column("enabled", Boolean, nullable=False),
    Column("definition", LargeBinary, nullable=False),  # JSON of the rule's fields
    Column("file_set", String),  # the set of a file of rules; NULL: a person has made it
    Column("version", BigInteger, nullable=False),  # the revision that changed it last
    Column("created_at", Float, nullable=False),
    Column("created_by", String, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("updated_by", String, nullable=False),
    UniqueConstraint("scope", "name", name="uq_rules_scope_name"),
)

rule_revisions = Table(  # one row, which every change of a rule locks and increases
    "rule_revisions",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
)

rule_states = Table(
    "rule_states",
    metadata,
    run_key(),
    # The revision of the rules to which the state belongs.
    Column("rules_revision", BigInteger, nullable=False),
    # The time at which a signal is absent for too long, unless it is recorded before.
    Column("due_at", Float, index=True),
    Column("state", LargeBinary, nullable=False),  # msgpack
)
