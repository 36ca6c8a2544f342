"""The stages and the history of alerts, and silences."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("alerts", sa.Column("stage", sa.String(), nullable=False, server_default="firing"))
    op.add_column("alerts", sa.Column("reopened_from", sa.String(), nullable=True))
    op.add_column("alerts", sa.Column("silence_id", sa.String(), nullable=True))
    op.add_column("alerts", sa.Column("silenced_until", sa.Float(), nullable=True))
    op.execute("UPDATE alerts SET stage = 'acknowledged' WHERE acknowledged_at IS NOT NULL")
    op.execute("UPDATE alerts SET stage = 'resolved' WHERE state = 'resolved'")
    op.create_index(
        "ix_alerts_silenced",
        "alerts",
        ["silence_id"],
        unique=False,
        sqlite_where=sa.text("silence_id IS NOT NULL"),
        postgresql_where=sa.text("silence_id IS NOT NULL"),
    )
    # A sequence of PostgreSQL, as for the other tables of a run; on SQLite the repository numbers the rows.
    number = sa.Column("number", sa.Integer(), autoincrement=False, nullable=False)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE SEQUENCE alert_history_number_seq AS integer")
        number = sa.Column(
            "number",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            server_default=sa.text("nextval('alert_history_number_seq')"),
        )
    op.create_table(
        "alert_history",
        sa.Column("run_id", sa.String(), nullable=False),
        number,
        sa.Column("alert_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("change", sa.String(), nullable=False),
        sa.Column("stage", sa.String(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("by", sa.String(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_alert_history_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_alert_history")),
    )
    op.create_index(
        op.f("ix_alert_history_run_id_alert_history_kind"), "alert_history", ["run_id", "kind"], unique=False
    )
    op.create_table(
        "silences",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=True),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=True),
        sa.Column("alert_id", sa.String(), nullable=True),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("starts_at", sa.Float(), nullable=False),
        sa.Column("ends_at", sa.Float(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("applied_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("ended_by", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_silences_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_silences")),
        sa.UniqueConstraint("id", name=op.f("uq_silences_id")),
    )
    op.create_index(op.f("ix_silences_run_id"), "silences", ["run_id"], unique=False)
    op.create_index(op.f("ix_silences_ended_at"), "silences", ["ended_at"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("restore the backup that was made before the upgrade")
