"""Which runs are being deleted, and how far the records and the steps of a run are thinned."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

COLUMNS = ("deleted_at", "records_thinned_to", "steps_thinned_to")


def upgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("deleted_at", sa.Float(), nullable=True))
        for name in COLUMNS[1:]:
            runs.add_column(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        for name in COLUMNS:
            runs.drop_column(name)
