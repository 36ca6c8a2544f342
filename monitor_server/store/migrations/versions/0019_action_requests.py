"""Actions that people have asked trainers for."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

OPEN = sa.text("state IN ('requested', 'received')")
UNFOLLOWED = sa.text("followed_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "action_requests",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("alert_id", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("requested_at", sa.Float(), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("phase", sa.String(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("followed_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_action_requests_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_action_requests")),
    )
    op.create_index(op.f("ix_action_requests_run_id"), "action_requests", ["run_id"], unique=False)
    op.create_index(
        "uq_action_requests_open", "action_requests", ["run_id", "action"], unique=True,
        sqlite_where=OPEN, postgresql_where=OPEN,
    )  # fmt: skip
    op.create_index(
        "ix_action_requests_unfollowed", "action_requests", ["state"], unique=False,
        sqlite_where=UNFOLLOWED, postgresql_where=UNFOLLOWED,
    )  # fmt: skip


def downgrade() -> None:
    op.drop_table("action_requests")
