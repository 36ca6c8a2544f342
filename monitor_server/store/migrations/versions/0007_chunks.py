"""Signals of many steps by signal, with summaries. Older steps are compacted as time goes."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("compacted_to", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "chunks",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("end_step", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.LargeBinary(), nullable=False),
        sa.Column("times", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_chunks_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "first_step", name=op.f("pk_chunks")),
    )
    op.create_table(
        "chunk_values",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("summary", sa.LargeBinary(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_chunk_values_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "position", "first_step", name=op.f("pk_chunk_values")),
    )


def downgrade() -> None:
    op.drop_table("chunk_values")
    op.drop_table("chunks")
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("compacted_to")
