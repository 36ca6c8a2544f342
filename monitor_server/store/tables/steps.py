"""Steps, whose signals are packed, and the sampled responses.

Signals of a step are packed: float64, little-endian, one place for each signal of the run in the order of the
``signals`` table. SQLite would turn NaN into NULL, and a name per value would cost four times the bytes.
"""

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, String, Table

from monitor_server.store.tables.columns import arrival_number, metadata, run_key

__all__ = ["chunk_values", "chunks", "responses", "steps"]

steps = Table(
    "steps",
    metadata,
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("time", Float, nullable=False),
    Column("policy_version", BigInteger),
    Column("data_version", String),
    Column("packed", LargeBinary, nullable=False),
    sqlite_with_rowid=False,  # the steps of a run are stored side by side
)

chunks = Table(  # ranges of steps whose signals are compacted: first_step <= step < end_step
    "chunks",
    metadata,
    run_key(),
    Column("first_step", BigInteger, primary_key=True, autoincrement=False),
    Column("end_step", BigInteger, nullable=False),
    Column("steps", LargeBinary, nullable=False),  # `store.encoding.chunks` encodes these and the values
    Column("times", LargeBinary, nullable=False),
)

chunk_values = Table(  # one signal of a chunk
    "chunk_values",
    metadata,
    run_key(),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("first_step", BigInteger, primary_key=True, autoincrement=False),
    Column("summary", LargeBinary, nullable=False),
    Column("packed", LargeBinary, nullable=False),
)

responses = Table(  # sampled responses; older steps are thinned
    "responses",
    metadata,
    run_key(),
    arrival_number(is_large=True),  # a fleet sends a thousand a second
    Column("attempt", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("kinds", String, nullable=False),  # the reasons for which it was kept, separated by blanks
    Column("correct", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),  # msgpack of wire.Response
    Index(None, "run_id", "step"),
)
