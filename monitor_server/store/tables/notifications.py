"""Messages to the channels, their events, and the newest results of each channel."""

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, LargeBinary, String, Table, Text, text

from monitor_server.store.tables.columns import metadata, run_key

__all__ = ["channel_results", "notification_events", "notification_messages"]

notification_messages = Table(  # to one channel; the body of a waiting message contains names and summaries of runs
    "notification_messages",
    metadata,
    Column("id", String, primary_key=True),  # a receiver recognises a repeat by it
    Column("channel", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("severity", String, nullable=False),  # the most severe of its alerts
    Column("events", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),  # JSON; empty once it is sent or given up
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Float, nullable=False),
    Column("claimed_until", Float),  # while a collector delivers it
    Column("sent_at", Float),
    Column("given_up_at", Float),
    Column("error", Text),  # of the newest attempt
    Index(None, "channel", "created_at"),
    Index(None, "created_at"),
    Index(  # few rows of many, which are read twice a second
        "ix_notification_messages_open",
        "channel",
        sqlite_where=text("sent_at IS NULL AND given_up_at IS NULL"),
        postgresql_where=text("sent_at IS NULL AND given_up_at IS NULL"),
    ),
)

notification_events = Table(  # the events of a channel to notify; written with the alert's transition
    "notification_events",
    metadata,
    run_key(),
    Column("alert_id", String, primary_key=True),
    Column("change", String, primary_key=True),
    Column("severity", String, primary_key=True),
    Column("channel", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("at", Float, nullable=False),
    Column("due_at", Float, nullable=False),  # for the escalation of an alert, later than `at`
    Column("instead_of", String),  # the channel that failed, if this is the fallback channel
    Column("message_id", String, ForeignKey("notification_messages.id", ondelete="CASCADE"), index=True),
    Index(
        "ix_notification_events_waiting",
        "channel",
        "due_at",
        sqlite_where=text("message_id IS NULL"),
        postgresql_where=text("message_id IS NULL"),
    ),
)

channel_results = Table(  # kept here, because messages are many and are removed after a month
    "channel_results",
    metadata,
    Column("channel", String, primary_key=True),
    Column("sent_at", Float),  # of the newest message that it has accepted
    Column("given_up_at", Float),  # of the newest message that it has not accepted
    Column("error", Text),  # of that one, until the channel accepts a message or a test, or its settings change
    Column("settings", String),  # a digest of the settings with which it began to fail
)
