"""Up to where the records and the responses of runs were thinned, so that no run is examined twice."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

COLUMNS = ("records_kept_steps", "records_thinned_at", "responses_thinned_to", "responses_thinned_at")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("runs", sa.Column(name, sa.BigInteger()))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("runs", name)
