"""Which runs are settled: they have ended, and nothing is left to project; and an index of the others."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

SETTLE = """
UPDATE runs SET is_settled = {true}
WHERE announced IN ('finished', 'stopped') AND position >= log_end AND NOT has_ready_steps AND quarantined_at IS NULL
"""


def upgrade() -> None:
    op.add_column("runs", sa.Column("is_settled", sa.Boolean(), nullable=False, server_default=sa.false()))
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    op.execute(SETTLE.format(true="1" if is_sqlite else "true"))
    op.create_index(
        "ix_runs_unsettled",
        "runs",
        ["number"],
        sqlite_where=sa.text("is_settled = 0"),
        postgresql_where=sa.text("NOT is_settled"),
    )
    # The states of older rules are found from the unsettled runs; SQLite would prefer this index, which has most runs.
    op.drop_index("ix_rule_states_rules_revision", "rule_states")


def downgrade() -> None:
    op.create_index("ix_rule_states_rules_revision", "rule_states", ["rules_revision"])
    op.drop_index("ix_runs_unsettled", "runs")
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("is_settled")
