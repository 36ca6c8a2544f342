"""The tables. Their history is in ``migrations``; a test holds the two together.

Signals of a step are packed: float64, little-endian, one place for each signal of the run in the order of the
``signals`` table. SQLite would turn NaN into NULL, and a name per value would cost four times the bytes.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    FetchedValue,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

__all__ = [
    "acknowledgements",
    "actions",
    "alert_history",
    "alerts",
    "api_keys",
    "attempts",
    "audit_entries",
    "chunk_values",
    "chunks",
    "detector_states",
    "metadata",
    "notification_events",
    "notification_messages",
    "phases",
    "records",
    "responses",
    "runs",
    "signals",
    "silences",
    "steps",
    "waiting",
]

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _run_key() -> Column[str]:
    """The run as the first part of the primary key, so that a table can be distributed by run."""
    return Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)


def _number() -> Column[int]:
    """A number in the order of arrival: of PostgreSQL's sequence, and on SQLite of `repositories.numbering`."""
    return Column("number", Integer, primary_key=True, autoincrement=False, server_default=FetchedValue())


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
    Column("attempt", BigInteger, nullable=False),  # the newest, as the trainer numbers it
    Column("phase", String, nullable=False),
    Column("ended", String),  # finished or stopped, said by the trainer
    Column("given_up_at", Float),  # when a person last acknowledged that its trainer is lost
    Column("announced", String, nullable=False),  # the status of the last `RunChanged` event
    Column("started_at", Float, nullable=False),
    Column("last_seen", Float, nullable=False),
    Column("last_step", BigInteger),
    Column("last_attempt", BigInteger, nullable=False),  # which made the last step
    Column("last_step_at", Float, nullable=False),  # when the newest step was completed here
    Column("step_seconds", Float),  # median, once two steps were seen
    Column("stall_seconds", Float, nullable=False),
    Column("recent", LargeBinary, nullable=False),  # msgpack of the last steps' times and rewards
    Column("log_end", BigInteger, nullable=False, server_default="0"),  # position of the newest entry in its log
    Column("signal_count", Integer, nullable=False, server_default="0"),  # rows of `signals`
    # What the projector owns, beside phase, announced and what the steps say.
    Column("position", BigInteger, nullable=False, server_default="0"),  # up to which the log is projected
    Column("projected_attempt", BigInteger, nullable=False, server_default="0"),  # the newest up to there
    Column("revision", BigInteger, nullable=False, server_default="0"),  # counts commits of the projector
    Column("owner", String),  # the projector that holds the run's state in memory: others leave it alone
    Column("owned_until", Float),
    Column("compacted_to", BigInteger, nullable=False, server_default="0"),  # the end of the last chunk there was
    Column("quarantined_at", Float),  # when the projector gave up on it
    Column("quarantine_reason", Text),
    # What `repositories.retention` owns.
    Column("deleted_at", Float),  # when its deletion began; no reader and no writer sees the run any more
    Column("records_thinned_to", BigInteger, nullable=False, server_default="0"),  # position in its log
    Column("steps_thinned_to", BigInteger, nullable=False, server_default="0"),  # every step below is thinned
    # What people write about the run.
    Column("title", String),  # shown in place of its name
    Column("tags", LargeBinary),  # JSON, a list of texts
    Column("notes", Text),
    Column("archived_at", Float),
)

attempts = Table(
    "attempts",
    metadata,
    _run_key(),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("world_size", Integer, nullable=False),  # 0 of a removed attempt, whose rows are removed in slices
    Column("first_seen", Float, nullable=False),
    Column("position", BigInteger, nullable=False),  # in the run's log, at which it began
    Column("has_config", Boolean, nullable=False),  # whether the run's configuration was written in it
)

signals = Table(
    "signals",
    metadata,
    _run_key(),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", String, nullable=False),
    UniqueConstraint("run_id", "name"),
)

records = Table(  # the log: records in the order in which they were committed, as the ranks sent them
    "records",
    metadata,
    _run_key(),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("batch", BigInteger, nullable=False),  # position of the last entry of its batch
    Column("attempt", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),  # msgpack of wire.Record; empty once retention has removed it
    UniqueConstraint("run_id", "attempt", "rank", "seq"),
    Index(None, "run_id", "attempt", "step"),
)

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
    sqlite_with_rowid=False,  # a run's steps lie beside each other on disk
)

chunks = Table(  # ranges of steps whose signals are compacted: first_step <= step < end_step
    "chunks",
    metadata,
    _run_key(),
    Column("first_step", BigInteger, primary_key=True, autoincrement=False),
    Column("end_step", BigInteger, nullable=False),
    Column("steps", LargeBinary, nullable=False),  # `store.encoding.chunks` encodes these and the values
    Column("times", LargeBinary, nullable=False),
)

chunk_values = Table(  # one signal of a chunk
    "chunk_values",
    metadata,
    _run_key(),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("first_step", BigInteger, primary_key=True, autoincrement=False),
    Column("summary", LargeBinary, nullable=False),
    Column("packed", LargeBinary, nullable=False),
)

responses = Table(  # sampled responses; older steps are thinned
    "responses",
    metadata,
    _run_key(),
    _number(),
    Column("attempt", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("kinds", String, nullable=False),  # what it was kept for, with blanks between
    Column("correct", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),  # msgpack of wire.Response
    Index(None, "run_id", "step"),
)

waiting = Table(  # steps of which not every rank has reported
    "waiting",
    metadata,
    _run_key(),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("first_seen", Float, nullable=False, index=True),
)

phases = Table(
    "phases",
    metadata,
    _run_key(),
    Column("from_step", BigInteger, primary_key=True, autoincrement=False),
    Column("to_step", BigInteger),  # NULL while it lasts
    Column("phase", String, nullable=False),
)

alerts = Table(
    "alerts",
    metadata,
    _run_key(),
    _number(),
    Column("id", String, nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("severity", String, nullable=False),
    Column("state", String, nullable=False),
    Column("phase", String, nullable=False),  # of the run, when it opened
    Column("opened_step", BigInteger, nullable=False),
    Column("severity_step", BigInteger, nullable=False),  # since which it has its severity
    Column("last_step", BigInteger, nullable=False),
    Column("resolved_step", BigInteger),
    Column("opened_at", Float, nullable=False),
    Column("summary", Text, nullable=False),
    Column("evidence", LargeBinary, nullable=False),  # JSON
    Column("acknowledged_at", Float),
    Column("acknowledged_by", String),
    Column("note", Text),  # of who acknowledged it
    Column("stage", String, nullable=False, server_default="firing"),  # `alerts.transitions` defines the stages
    Column("reopened_from", String),  # the alert of this run and kind that was resolved before
    Column("silence_id", String),  # the silence that covers it
    Column("silenced_until", Float),
    UniqueConstraint("run_id", "id"),
    Index(None, "number"),
    Index(None, "run_id", "state"),
    Index(  # few rows of many, which are looked for every second
        "ix_alerts_silenced",
        "silence_id",
        sqlite_where=text("silence_id IS NOT NULL"),
        postgresql_where=text("silence_id IS NOT NULL"),
    ),
    Index(
        "uq_alerts_firing",
        "run_id",
        "kind",
        unique=True,
        sqlite_where=text("state = 'firing'"),
        postgresql_where=text("state = 'firing'"),
    ),
)

alert_history = Table(  # what has happened to alerts, comments included; rows are appended
    "alert_history",
    metadata,
    _run_key(),
    _number(),
    Column("alert_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("at", Float, nullable=False),
    Column("change", String, nullable=False),
    Column("stage", String, nullable=False),  # after the change
    Column("step", BigInteger),
    Column("by", String),  # NULL: the collector
    Column("why", Text, nullable=False),
    Index(None, "run_id", "kind"),
)

silences = Table(  # which alerts nobody is notified of, and for how long; what is NULL covers everything
    "silences",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String, nullable=False, unique=True),
    Column("project", String),
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), index=True),
    Column("kind", String),
    Column("alert_id", String),
    Column("severity", String, nullable=False),  # the most severe that it covers
    Column("starts_at", Float, nullable=False),
    Column("ends_at", Float),  # NULL: with the alert
    Column("reason", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("created_by", String, nullable=False),
    Column("applied_at", Float),  # when every alert that it covers at its start was silenced
    Column("ended_at", Float, index=True),
    Column("ended_by", String),  # NULL: by its time, or with its alert
)

actions = Table(  # what trainers did about alerts, would have done, or could not do
    "actions",
    metadata,
    _run_key(),
    _number(),
    Column("attempt", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),  # that reported it
    Column("time", Float, nullable=False),
    Column("action", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("alert_id", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
)

acknowledgements = Table(  # of alerts, by people; entries of the log like records, and inputs of detection
    "acknowledgements",
    metadata,
    _run_key(),
    _number(),
    Column("position", BigInteger, nullable=False, server_default="0"),
    Column("alert_id", String, nullable=False),
    Column("kind", String, nullable=False),
    # The newest step that detection had seen, which is where a replay repeats it; NULL until projected, and where
    # detection has no part in it.
    Column("attempt", BigInteger),
    Column("step", BigInteger),
    Column("at", Float, nullable=False),
    Column("by", String, nullable=False),
    Column("note", Text, nullable=False),
)

detector_states = Table(
    "detector_states",
    metadata,
    Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),  # the last step the state has seen
    Column("state", LargeBinary, nullable=False),  # msgpack
)

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
)

audit_entries = Table(  # who changed what; retention removes old rows
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

notification_messages = Table(  # to one channel; of messages that wait the body holds names and summaries of runs
    "notification_messages",
    metadata,
    Column("id", String, primary_key=True),  # by which a receiver recognises a repeat
    Column("channel", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("severity", String, nullable=False),  # the most severe of its alerts
    Column("events", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),  # JSON; empty once it is sent or given up
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Float, nullable=False),
    Column("claimed_until", Float),  # while a collector delivers it
    Column("fallback_at", Float),  # when its alerts were first passed on to the fallback channel
    Column("sent_at", Float),
    Column("given_up_at", Float),
    Column("error", Text),  # of the newest attempt
    Index(None, "channel", "created_at"),
    Index(  # few rows of many, which are looked for twice a second
        "ix_notification_messages_open",
        "channel",
        sqlite_where=text("sent_at IS NULL AND given_up_at IS NULL"),
        postgresql_where=text("sent_at IS NULL AND given_up_at IS NULL"),
    ),
)

notification_events = Table(  # what a channel is to be notified of; written with the alert's transition
    "notification_events",
    metadata,
    _run_key(),
    Column("alert_id", String, primary_key=True),
    Column("change", String, primary_key=True),
    Column("severity", String, primary_key=True),
    Column("channel", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("at", Float, nullable=False),
    Column("due_at", Float, nullable=False),  # later than `at` where it is the escalation of an alert
    Column("instead_of", String),  # the channel that failed, of what the fallback channel receives
    Column("message_id", String, ForeignKey("notification_messages.id", ondelete="CASCADE"), index=True),
    Index(
        "ix_notification_events_waiting",
        "channel",
        "due_at",
        sqlite_where=text("message_id IS NULL"),
        postgresql_where=text("message_id IS NULL"),
    ),
)
