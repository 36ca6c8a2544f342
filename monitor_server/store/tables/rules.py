"""Rules of the user's own, and what they have seen of each run."""

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
    Column("scope", String, nullable=False),  # what the rule concerns, as one text: names are unique in it
    Column("name", String, nullable=False),
    Column("project", String, index=True),  # NULL: every project
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), index=True),
    Column("enabled", Boolean, nullable=False),
    Column("definition", LargeBinary, nullable=False),  # JSON of what the rule states
    Column("file_set", String),  # the set of rules that a file states; NULL: a person has made it
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
    Column("rules_revision", BigInteger, nullable=False, index=True),  # of the rules that the state follows
    Column("due_at", Float, index=True),  # when a signal is absent for too long, unless it is recorded before
    Column("state", LargeBinary, nullable=False),  # msgpack
)
