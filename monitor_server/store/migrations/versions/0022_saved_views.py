"""Views of the fleet that people save under a name."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_views",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=True),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("saved_at", sa.Float(), nullable=False),
        sa.Column("saved_by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_saved_views")),
        sa.UniqueConstraint("id", name=op.f("uq_saved_views_id")),
        sa.UniqueConstraint("scope", "name", name=op.f("uq_saved_views_scope_name")),
    )


def downgrade() -> None:
    op.drop_table("saved_views")
