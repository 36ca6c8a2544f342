"""Which runs have complete steps that wait for the next slice; a collector that starts looks at all that wait."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("has_ready_steps", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("has_ready_steps")
