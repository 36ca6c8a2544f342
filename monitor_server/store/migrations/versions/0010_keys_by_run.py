"""The keys of alerts, actions, responses and acknowledgements begin with the run, and SQLite keeps records by rowid.

A record is longer than a leaf of SQLite's index trees holds. In a table without rowid, which is such a tree, each
record took a page of its own beside its cell: three times the disk, and twice the processor time of an append.
"""

from alembic import op

revision = "0010"
down_revision = "0008"
branch_labels = None
depends_on = None

# The body is last: SQLite reads through a long one to what follows it.
COLUMNS = ("run_id", "position", "batch", "attempt", "rank", "seq", "step", "body")


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        by_rowid = {"sqlite_with_rowid": True}
        with op.batch_alter_table("records", recreate="always", partial_reordering=[COLUMNS], table_kwargs=by_rowid):
            pass
    op.drop_index(op.f("ix_actions_run_id_actions_number"), table_name="actions")  # the primary key is the same
    op.drop_index(op.f("ix_acknowledgements_run_id"), table_name="acknowledgements")
    for name in ("actions", "responses", "acknowledgements"):
        with op.batch_alter_table(name) as table:
            table.drop_constraint(op.f(f"pk_{name}"), type_="primary")
            table.create_primary_key(op.f(f"pk_{name}"), ["run_id", "number"])
    with op.batch_alter_table("alerts") as alerts:
        alerts.drop_constraint(op.f("pk_alerts"), type_="primary")
        alerts.create_primary_key(op.f("pk_alerts"), ["run_id", "number"])
        alerts.drop_constraint(op.f("uq_alerts_id"), type_="unique")
        alerts.create_unique_constraint(op.f("uq_alerts_run_id_id"), ["run_id", "id"])
    op.create_index(op.f("ix_alerts_id"), "alerts", ["id"], unique=False)
    op.create_index(op.f("ix_alerts_number"), "alerts", ["number"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("restore the backup that was made before the upgrade")
