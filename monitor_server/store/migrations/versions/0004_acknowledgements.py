"""Acknowledgements, and runs that a person gave up."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("given_up_at", sa.Float(), nullable=True))
    with op.batch_alter_table("alerts") as alerts:
        alerts.add_column(sa.Column("acknowledged_at", sa.Float(), nullable=True))
        alerts.add_column(sa.Column("acknowledged_by", sa.String(), nullable=True))
        alerts.add_column(sa.Column("note", sa.Text(), nullable=True))
    op.create_table(
        "acknowledgements",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("alert_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_acknowledgements_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_acknowledgements")),
    )
    op.create_index(op.f("ix_acknowledgements_run_id"), "acknowledgements", ["run_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_acknowledgements_run_id"), table_name="acknowledgements")
    op.drop_table("acknowledgements")
    with op.batch_alter_table("alerts") as alerts:
        alerts.drop_column("note")
        alerts.drop_column("acknowledged_by")
        alerts.drop_column("acknowledged_at")
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("given_up_at")
