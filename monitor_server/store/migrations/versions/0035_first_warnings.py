"""The first step at which an alert was a warning, and an index of the pending alerts."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("alerts", sa.Column("warned_step", sa.BigInteger()))
    # When older alerts that became critical were a warning is not known.
    op.execute("UPDATE alerts SET warned_step = severity_step WHERE severity <> 'info'")
    pending = sa.text("state = 'pending'")
    op.create_index("ix_alerts_pending", "alerts", ["number"], sqlite_where=pending, postgresql_where=pending)


def downgrade() -> None:
    op.drop_index("ix_alerts_pending", "alerts")
    op.drop_column("alerts", "warned_step")
