"""The rank whose process has reported the end of a run."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("ended_rank", sa.Integer()))


def downgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("ended_rank")
