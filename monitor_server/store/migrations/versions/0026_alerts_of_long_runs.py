"""Indexes by which the open and the recent alerts of a run are found among thousands that are resolved."""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

ALERTS = "ix_alerts_run_id_alerts_state"
OPEN_ALERTS = "ix_alerts_run_id_alerts_state_alerts_number"
HISTORY = "ix_alert_history_run_id_alert_history_alert_id"


def upgrade() -> None:
    op.create_index(op.f(OPEN_ALERTS), "alerts", ["run_id", "state", "number"])
    op.drop_index(op.f(ALERTS), table_name="alerts")
    op.create_index(op.f(HISTORY), "alert_history", ["run_id", "alert_id"])


def downgrade() -> None:
    op.drop_index(op.f(HISTORY), table_name="alert_history")
    op.create_index(op.f(ALERTS), "alerts", ["run_id", "state"])
    op.drop_index(op.f(OPEN_ALERTS), table_name="alerts")
