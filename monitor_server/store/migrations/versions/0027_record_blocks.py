"""Rows of the log that hold several records of a batch; each row that is stored already is a block of one record."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

BY_STEP = "ix_records_run_id_records_attempt_records_step"
COMPRESSIONS = "SELECT enumvals FROM pg_settings WHERE name = 'default_toast_compression'"


def upgrade() -> None:
    op.add_column("records", sa.Column("record_count", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("records", sa.Column("seq_span", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("records", sa.Column("step_span", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("records", sa.Column("entries", sa.LargeBinary(), nullable=True))
    op.create_index("ix_records_steps", "records", ["run_id", "attempt", "step", "step_span"])
    op.drop_index(op.f(BY_STEP), table_name="records")
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        # Whatever is longer than 2 KB is compressed, by default in a way that takes more time than all the rest.
        known = connection.execute(sa.text(COMPRESSIONS)).scalar() or []
        how = "COMPRESSION lz4" if "lz4" in known else "STORAGE EXTERNAL"
        op.execute(f"ALTER TABLE records ALTER COLUMN body SET {how}")


def downgrade() -> None:
    raise NotImplementedError("blocks of several records cannot be read by a version without them; restore a backup")
