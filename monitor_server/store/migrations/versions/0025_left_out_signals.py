"""What a run has lost of its signals because it has as many as it may have."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("left_out_signals", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("left_out_step", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("left_out_name", sa.String(), nullable=True))


def downgrade() -> None:
    for name in ("left_out_name", "left_out_step", "left_out_signals"):
        op.drop_column("runs", name)
