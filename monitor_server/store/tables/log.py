"""The log of each run: the records of its ranks and people's acknowledgements, in the order of commit."""

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint

from monitor_server.store.tables.columns import arrival_number, metadata, run_key

__all__ = ["acknowledgements", "records", "waiting"]

records = Table(  # the log: blocks of records in the order in which they were committed, as the ranks sent them
    "records",
    metadata,
    run_key(),
    Column("position", BigInteger, primary_key=True, autoincrement=False),  # of its last record
    Column("batch", BigInteger, nullable=False),  # position of the last entry of its batch
    Column("attempt", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),  # of its last record, the highest
    Column("step", BigInteger, nullable=False),  # of its last record, the highest
    Column("body", LargeBinary, nullable=False),  # msgpack of each wire.Record; empty once retention has removed it
    Column("record_count", Integer, nullable=False, server_default="1"),
    Column("seq_span", BigInteger, nullable=False, server_default="0"),  # from its first record to its last
    Column("step_span", BigInteger, nullable=False, server_default="0"),
    Column("entries", LargeBinary),  # seq, step and length of each record; NULL for one record
    UniqueConstraint("run_id", "attempt", "rank", "seq"),
    Index("ix_records_steps", "run_id", "attempt", "step", "step_span"),
)

waiting = Table(  # steps that not every rank has reported
    "waiting",
    metadata,
    run_key(),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("first_seen", Float, nullable=False, index=True),
)

acknowledgements = Table(  # of alerts, by people; entries of the log like records, and input of detection
    "acknowledgements",
    metadata,
    run_key(),
    arrival_number(),
    Column("position", BigInteger, nullable=False, server_default="0"),
    Column("alert_id", String, nullable=False),
    Column("kind", String, nullable=False),
    # The newest step that detection had processed, at which a replay repeats it. NULL until it is projected, and for
    # acknowledgements that do not concern detection.
    Column("attempt", BigInteger),
    Column("step", BigInteger),
    Column("at", Float, nullable=False),
    Column("by", String, nullable=False),
    Column("note", Text, nullable=False),
)
