"""Settings that people change in the dashboard: channels and routes of notifications, and how long data is kept."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "notification_documents",
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("saved_at", sa.Float(), nullable=False),
        sa.Column("saved_by", sa.String(), nullable=False),
        sa.Column("changes", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_notification_documents")),
    )
    op.create_table(
        "retention_limits",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("saved_at", sa.Float(), nullable=False),
        sa.Column("saved_by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_retention_limits")),
    )


def downgrade() -> None:
    op.drop_table("retention_limits")
    op.drop_table("notification_documents")
