"""Rules of the user's own, and what they have seen of each run."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rules",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=True),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("definition", sa.LargeBinary(), nullable=False),
        sa.Column("file_set", sa.String(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("updated_by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_rules_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_rules")),
        sa.UniqueConstraint("id", name=op.f("uq_rules_id")),
        sa.UniqueConstraint("scope", "name", name=op.f("uq_rules_scope_name")),
    )
    op.create_index(op.f("ix_rules_project"), "rules", ["project"], unique=False)
    op.create_index(op.f("ix_rules_run_id"), "rules", ["run_id"], unique=False)
    revisions = op.create_table(
        "rule_revisions",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rule_revisions")),
    )
    op.bulk_insert(revisions, [{"id": 1, "revision": 0}])
    op.create_table(
        "rule_states",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("rules_revision", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=True),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_rule_states_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_rule_states")),
    )
    op.create_index(op.f("ix_rule_states_rules_revision"), "rule_states", ["rules_revision"], unique=False)
    op.create_index(op.f("ix_rule_states_due_at"), "rule_states", ["due_at"], unique=False)


def downgrade() -> None:
    for name in ("rule_states", "rule_revisions", "rules"):
        op.drop_table(name)
