"""The newest results of each channel; and indexes for old messages, and for silenced alerts that are not resolved."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

SILENCED = "ix_alerts_silenced"
# Notices to the channels of an earlier version have a name with @.
RESULTS = """
INSERT INTO channel_results (channel, sent_at, given_up_at)
SELECT channel, max(sent_at), max(given_up_at) FROM notification_messages
WHERE channel NOT LIKE '%@%' AND (sent_at IS NOT NULL OR given_up_at IS NOT NULL) GROUP BY channel
"""
REASONS = """
UPDATE channel_results SET error = (
    SELECT coalesce(max(error), 'not known') FROM notification_messages AS message
    WHERE message.channel = channel_results.channel AND message.given_up_at = channel_results.given_up_at
)
WHERE given_up_at > coalesce(sent_at, 0)
"""


def upgrade() -> None:
    op.create_table(
        "channel_results",
        sa.Column("channel", sa.String(), primary_key=True),
        sa.Column("sent_at", sa.Float(), nullable=True),
        sa.Column("given_up_at", sa.Float(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("settings", sa.String(), nullable=True),
    )
    op.execute(RESULTS)
    op.execute(REASONS)
    op.drop_column("notification_messages", "fallback_at")
    op.create_index("ix_notification_messages_created_at", "notification_messages", ["created_at"])
    _index_silenced("silence_id IS NOT NULL AND state <> 'resolved'")


def downgrade() -> None:
    _index_silenced("silence_id IS NOT NULL")
    op.drop_index("ix_notification_messages_created_at", "notification_messages")
    op.add_column("notification_messages", sa.Column("fallback_at", sa.Float(), nullable=True))
    op.drop_table("channel_results")


def _index_silenced(condition: str) -> None:
    op.drop_index(SILENCED, "alerts")
    op.create_index(
        SILENCED, "alerts", ["silence_id"], sqlite_where=sa.text(condition), postgresql_where=sa.text(condition)
    )
