"""Runs, their attempts, the names of their signals, and their phases."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from monitor_server.store.tables.columns import metadata, run_key

__all__ = ["attempts", "phases", "runs", "signals"]

runs = Table(
    "runs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String, nullable=False, unique=True),
    Column("project", String, nullable=False),
    Column("name", String, nullable=False),
    Column("source", String, nullable=False),
    Column("capability", String, nullable=False),
    Column("world_size", Integer, nullable=False),
    Column("config", LargeBinary),  # JSON
    Column("attempt", BigInteger, nullable=False),  # the newest, in the trainer's numbering
    Column("phase", String, nullable=False),
    Column("ended", String),  # finished or stopped, as the trainer reported
    Column("ended_rank", Integer),  # the rank that reported it
    Column("given_up_at", Float),  # when a person last acknowledged that its trainer is lost
    Column("announced", String, nullable=False),  # the status of the last `RunChanged` event
    Column("started_at", Float, nullable=False),
    Column("last_seen", Float, nullable=False),
    Column("last_step", BigInteger),
    Column("last_attempt", BigInteger, nullable=False),  # the attempt that made the last step
    Column("last_step_at", Float, nullable=False),  # when the newest step was completed here
    Column("step_seconds", Float),  # median, once two steps were seen
    Column("stall_seconds", Float, nullable=False),
    Column("recent", LargeBinary, nullable=False),  # msgpack of the last steps' times and rewards
    Column("log_end", BigInteger, nullable=False, server_default="0"),  # position of the newest entry in its log
    Column("signal_count", Integer, nullable=False, server_default="0"),  # rows of `signals`
    # The largest number that a record has lost.
    Column("left_out_signals", Integer, nullable=False, server_default="0"),
    Column("left_out_step", BigInteger),  # the first step that has lost signals
    Column("left_out_name", String),  # the name of one lost signal
    # Whether it has ended and nothing is left to project, so that nothing happens before somebody writes to it.
    Column("is_settled", Boolean, nullable=False, server_default=false()),
    # The columns that the projector owns, beside phase, announced and the columns of the last step.
    Column("position", BigInteger, nullable=False, server_default="0"),  # up to which the log is projected
    # The newest attempt up to that position.
    Column("projected_attempt", BigInteger, nullable=False, server_default="0"),
    # Whether steps up to that position are complete and wait for the next slice.
    Column("has_ready_steps", Boolean, nullable=False, server_default=false()),
    Column("revision", BigInteger, nullable=False, server_default="0"),  # counts commits of the projector
    Column("owner", String),  # the projector that has the run's state in memory: other projectors leave the run alone
    Column("owned_until", Float),
    Column("compacted_to", BigInteger, nullable=False, server_default="0"),  # the end of the newest chunk
    Column("quarantined_at", Float),  # when the projector quarantined it
    Column("quarantine_reason", Text),
    # The columns that `repositories.retention` owns.
    Column("deleted_at", Float),  # when its deletion began; no reader and no writer sees the run any more
    Column("records_thinned_to", BigInteger, nullable=False, server_default="0"),  # position in its log
    # The number of newest steps whose records the last thinning has kept, and the revision at which it ended.
    Column("records_kept_steps", BigInteger),
    Column("records_thinned_at", BigInteger),
    # The step up to which responses were old when they were last thinned, and the position in the log at that time.
    Column("responses_thinned_to", BigInteger),
    Column("responses_thinned_at", BigInteger),
    Column("steps_thinned_to", BigInteger, nullable=False, server_default="0"),  # next to thin; written steps lower it
    Column("has_thinned_steps", Boolean, nullable=False, server_default=false()),  # whether any of them was removed
    # The columns that people write.
    Column("title", String),  # shown in place of its name
    Column("tags", LargeBinary),  # JSON, a list of texts
    Column("notes", Text),
    Column("archived_at", Float),
    # The columns for search, grouping and sorting of lists: `repositories.listed_columns` derives them.
    Column("search_text", Text, nullable=False, server_default=""),
    Column("setting", String, nullable=False, server_default=""),  # the name without its seed
    Column("tagged_owner", String),
    Column("first_tag", String),
    Column("reward", Float),  # the newest finite one
    Column("reward_change", Float),
    Index(  # few rows of many, which are read several times a second
        "ix_runs_unsettled",
        "number",
        sqlite_where=text("is_settled = 0"),
        postgresql_where=text("NOT is_settled"),
    ),
)

attempts = Table(
    "attempts",
    metadata,
    run_key(),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("world_size", Integer, nullable=False),  # 0 for a removed attempt, whose rows are removed in slices
    Column("first_seen", Float, nullable=False),
    Column("position", BigInteger, nullable=False),  # the position in the run's log at which it began
    Column("has_config", Boolean, nullable=False),  # whether the run's configuration was written in it
    Column("config_change", Text),  # its differences from the one before, in words; NULL if there is none before
)

signals = Table(
    "signals",
    metadata,
    run_key(),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", String, nullable=False),
    UniqueConstraint("run_id", "name"),
)

phases = Table(
    "phases",
    metadata,
    run_key(),
    Column("from_step", BigInteger, primary_key=True, autoincrement=False),
    Column("to_step", BigInteger),  # NULL for the current phase
    Column("phase", String, nullable=False),
)
