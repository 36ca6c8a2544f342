"""PostgreSQL numbers more than 2,147,483,647 sampled responses; SQLite numbers those of each run, in 64 bits."""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE responses ALTER COLUMN number TYPE BIGINT")
        op.execute("ALTER SEQUENCE responses_number_seq AS BIGINT")


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER SEQUENCE responses_number_seq AS INTEGER")
        op.execute("ALTER TABLE responses ALTER COLUMN number TYPE INTEGER")
