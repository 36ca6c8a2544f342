"""Which runs have lost steps to thinning; it is assumed of those that an earlier version has examined."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("has_thinned_steps", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute(sa.text("UPDATE runs SET has_thinned_steps = true WHERE steps_thinned_to > 0"))


def downgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("has_thinned_steps")
