"""The step since which an alert has its severity."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("alerts") as alerts:
        alerts.add_column(sa.Column("severity_step", sa.BigInteger(), nullable=True))
    # When older alerts became graver was not kept.
    op.execute("UPDATE alerts SET severity_step = opened_step")
    with op.batch_alter_table("alerts") as alerts:
        alerts.alter_column("severity_step", nullable=False)


def downgrade() -> None:
    with op.batch_alter_table("alerts") as alerts:
        alerts.drop_column("severity_step")
