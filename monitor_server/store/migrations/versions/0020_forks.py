"""The forks that a trainer has tried, with its report of the action."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("actions", sa.Column("forks", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.drop_column("actions", "forks")
