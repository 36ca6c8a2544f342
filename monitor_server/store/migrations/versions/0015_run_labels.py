"""What people write about a run: a title, tags, notes, and whether it is archived."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("title", sa.String(), nullable=True))
    op.add_column("runs", sa.Column("tags", sa.LargeBinary(), nullable=True))
    op.add_column("runs", sa.Column("notes", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("archived_at", sa.Float(), nullable=True))


def downgrade() -> None:
    for name in ("archived_at", "notes", "tags", "title"):
        op.drop_column("runs", name)
