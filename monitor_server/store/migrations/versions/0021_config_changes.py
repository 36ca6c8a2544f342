"""Where the configuration of an attempt differs from the one before."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("config_change", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("attempts", "config_change")
