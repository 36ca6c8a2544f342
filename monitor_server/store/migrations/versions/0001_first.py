"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("capability", sa.String(), nullable=False),
        sa.Column("world_size", sa.Integer(), nullable=False),
        sa.Column("config", sa.LargeBinary(), nullable=True),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("ended", sa.String(), nullable=True),
        sa.Column("announced", sa.String(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("last_seen", sa.Float(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("last_attempt", sa.BigInteger(), nullable=False),
        sa.Column("last_step_at", sa.Float(), nullable=False),
        sa.Column("step_seconds", sa.Float(), nullable=True),
        sa.Column("stall_seconds", sa.Float(), nullable=False),
        sa.Column("recent", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_runs")),
        sa.UniqueConstraint("id", name=op.f("uq_runs_id")),
    )
    op.create_table(
        "alerts",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("opened_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("resolved_step", sa.BigInteger(), nullable=True),
        sa.Column("opened_at", sa.Float(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("evidence", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_alerts_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_alerts")),
        sa.UniqueConstraint("id", name=op.f("uq_alerts_id")),
    )
    op.create_index(op.f("ix_alerts_run_id_alerts_state"), "alerts", ["run_id", "state"], unique=False)
    op.create_index(
        "uq_alerts_firing",
        "alerts",
        ["run_id", "kind"],
        unique=True,
        sqlite_where=sa.text("state = 'firing'"),
        postgresql_where=sa.text("state = 'firing'"),
    )
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("world_size", sa.Integer(), nullable=False),
        sa.Column("first_seen", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_attempts_run_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("run_id", "attempt", name=op.f("uq_attempts_run_id_attempt")),
    )
    op.create_table(
        "detector_states",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_detector_states_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_detector_states")),
    )
    op.create_table(
        "phases",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("from_step", sa.BigInteger(), nullable=False),
        sa.Column("to_step", sa.BigInteger(), nullable=True),
        sa.Column("phase", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_phases_run_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("run_id", "from_step", name=op.f("uq_phases_run_id_from_step")),
    )
    op.create_table(
        "records",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_records_run_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("run_id", "attempt", "rank", "seq", name=op.f("uq_records_run_id_attempt_rank_seq")),
    )
    op.create_index(
        op.f("ix_records_run_id_records_attempt_records_step"), "records", ["run_id", "attempt", "step"], unique=False
    )
    op.create_table(
        "signals",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_signals_run_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("run_id", "name", name=op.f("uq_signals_run_id_name")),
        sa.UniqueConstraint("run_id", "position", name=op.f("uq_signals_run_id_position")),
    )
    op.create_table(
        "steps",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", sa.Float(), nullable=False),
        sa.Column("policy_version", sa.BigInteger(), nullable=True),
        sa.Column("data_version", sa.String(), nullable=True),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_steps_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step", "attempt", name=op.f("pk_steps")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "waiting",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("first_seen", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_waiting_run_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("run_id", "attempt", "step", name=op.f("uq_waiting_run_id_attempt_step")),
    )
    op.create_index(op.f("ix_waiting_first_seen"), "waiting", ["first_seen"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_waiting_first_seen"), table_name="waiting")
    op.drop_table("waiting")
    op.drop_table("steps")
    op.drop_table("signals")
    op.drop_index(op.f("ix_records_run_id_records_attempt_records_step"), table_name="records")
    op.drop_table("records")
    op.drop_table("phases")
    op.drop_table("detector_states")
    op.drop_table("attempts")
    op.drop_index(
        "uq_alerts_firing",
        table_name="alerts",
        sqlite_where=sa.text("state = 'firing'"),
        postgresql_where=sa.text("state = 'firing'"),
    )
    op.drop_index(op.f("ix_alerts_run_id_alerts_state"), table_name="alerts")
    op.drop_table("alerts")
    op.drop_table("runs")
