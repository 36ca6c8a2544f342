"""The persons whom an OpenID Connect provider has named, and the settings with which collectors were started last."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("subject", sa.String(), nullable=True))
    op.create_table(
        "recorded_settings",
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("role", name="pk_recorded_settings"),
    )


def downgrade() -> None:
    op.drop_table("recorded_settings")
    op.drop_column("api_keys", "subject")
