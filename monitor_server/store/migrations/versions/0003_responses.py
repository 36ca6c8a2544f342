"""Sampled responses."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002_actions"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "responses",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("kinds", sa.String(), nullable=False),
        sa.Column("correct", sa.Boolean(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_responses_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_responses")),
    )
    op.create_index(op.f("ix_responses_run_id_responses_step"), "responses", ["run_id", "step"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_responses_run_id_responses_step"), table_name="responses")
    op.drop_table("responses")
