"""What channels are to be notified of, and the messages to them."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "notification_messages",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.Float(), nullable=False),
        sa.Column("claimed_until", sa.Float(), nullable=True),
        sa.Column("fallback_at", sa.Float(), nullable=True),
        sa.Column("sent_at", sa.Float(), nullable=True),
        sa.Column("given_up_at", sa.Float(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_messages")),
    )
    op.create_index(
        op.f("ix_notification_messages_channel_notification_messages_created_at"),
        "notification_messages",
        ["channel", "created_at"],
        unique=False,
    )
    op.create_index(
        "ix_notification_messages_open",
        "notification_messages",
        ["channel"],
        unique=False,
        sqlite_where=sa.text("sent_at IS NULL AND given_up_at IS NULL"),
        postgresql_where=sa.text("sent_at IS NULL AND given_up_at IS NULL"),
    )
    op.create_table(
        "notification_events",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("alert_id", sa.String(), nullable=False),
        sa.Column("change", sa.String(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("instead_of", sa.String(), nullable=True),
        sa.Column("message_id", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_notification_events_run_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["message_id"],
            ["notification_messages.id"],
            name=op.f("fk_notification_events_message_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "run_id", "alert_id", "change", "severity", "channel", name=op.f("pk_notification_events")
        ),
    )
    op.create_index(op.f("ix_notification_events_message_id"), "notification_events", ["message_id"], unique=False)
    op.create_index(
        "ix_notification_events_waiting",
        "notification_events",
        ["channel", "due_at"],
        unique=False,
        sqlite_where=sa.text("message_id IS NULL"),
        postgresql_where=sa.text("message_id IS NULL"),
    )


def downgrade() -> None:
    op.drop_table("notification_events")
    op.drop_table("notification_messages")
