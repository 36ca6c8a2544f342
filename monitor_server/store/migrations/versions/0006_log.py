"""The log: records get a position in their run, and the run the position up to which it is projected.

Primary keys begin with the run. What an older version has stored is all projected already.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

RUN = ("run_id", sa.String())


def upgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        for name in ("log_end", "position", "projected_attempt", "revision"):
            runs.add_column(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
        runs.add_column(sa.Column("signal_count", sa.Integer(), nullable=False, server_default="0"))
        runs.add_column(sa.Column("owner", sa.String(), nullable=True))
        runs.add_column(sa.Column("owned_until", sa.Float(), nullable=True))
        runs.add_column(sa.Column("quarantined_at", sa.Float(), nullable=True))
        runs.add_column(sa.Column("quarantine_reason", sa.Text(), nullable=True))
    _rebuild_records()
    _rebuild(
        "attempts",
        {"attempt": sa.BigInteger(), "world_size": sa.Integer(), "first_seen": sa.Float()},
        key=("attempt",),
        added={
            "position": (sa.BigInteger(), "0"),
            # Its run's configuration stays; a later hello of the same attempt does not write it again.
            "has_config": (sa.Boolean(), "(SELECT runs.config IS NOT NULL FROM runs WHERE runs.id = old.run_id)"),
        },
    )
    _rebuild("signals", {"position": sa.Integer(), "name": sa.String()}, key=("position",), unique=("name",))
    _rebuild(
        "phases",
        {"from_step": sa.BigInteger(), "to_step": sa.BigInteger(), "phase": sa.String()},
        key=("from_step",),
        nullable=("to_step",),
    )
    op.drop_index(op.f("ix_waiting_first_seen"), table_name="waiting")
    _rebuild(
        "waiting",
        {"attempt": sa.BigInteger(), "step": sa.BigInteger(), "first_seen": sa.Float()},
        key=("attempt", "step"),
    )
    op.create_index(op.f("ix_waiting_first_seen"), "waiting", ["first_seen"], unique=False)
    with op.batch_alter_table("acknowledgements") as acknowledgements:
        acknowledgements.add_column(sa.Column("position", sa.BigInteger(), nullable=False, server_default="0"))
        acknowledgements.alter_column("attempt", existing_type=sa.BigInteger(), nullable=True)
        acknowledgements.alter_column("step", existing_type=sa.BigInteger(), nullable=True)
    op.execute(
        "UPDATE runs SET log_end = (SELECT count(*) FROM records WHERE records.run_id = runs.id), "
        "position = (SELECT count(*) FROM records WHERE records.run_id = runs.id), "
        "signal_count = (SELECT count(*) FROM signals WHERE signals.run_id = runs.id), projected_attempt = attempt"
    )


def downgrade() -> None:
    raise NotImplementedError("the log cannot be taken apart; restore the backup that was made before the upgrade")


def _rebuild_records() -> None:
    """Number the records in the order in which they were stored."""
    arrival = "rowid" if op.get_bind().dialect.name == "sqlite" else "ctid"
    position = f"row_number() OVER (PARTITION BY run_id ORDER BY old.{arrival})"
    op.drop_index(op.f("ix_records_run_id_records_attempt_records_step"), table_name="records")
    types: dict[str, sa.types.TypeEngine[Any]] = {
        "attempt": sa.BigInteger(),
        "rank": sa.Integer(),
        "seq": sa.BigInteger(),
        "step": sa.BigInteger(),
        "body": sa.LargeBinary(),
    }
    _rebuild(
        "records",
        types,
        key=("position",),
        unique=("attempt", "rank", "seq"),
        added={"position": (sa.BigInteger(), position), "batch": (sa.BigInteger(), position)},
        clustered=True,
    )
    op.create_index(
        op.f("ix_records_run_id_records_attempt_records_step"), "records", ["run_id", "attempt", "step"], unique=False
    )


def _rebuild(  # the same on SQLite, which cannot alter a key, and on PostgreSQL
    table: str,
    types: dict[str, "sa.types.TypeEngine[Any]"],
    *,
    key: tuple[str, ...],
    unique: tuple[str, ...] = (),
    nullable: tuple[str, ...] = (),
    added: dict[str, tuple["sa.types.TypeEngine[Any]", str]] | None = None,
    clustered: bool = False,
) -> None:
    """Make a table anew with a key that begins with the run, and copy its rows; ``added`` has SQL expressions."""
    added = added or {}
    columns = types | {name: kind for name, (kind, _) in added.items()}
    op.rename_table(table, f"{table}_old")
    for constraint in _unique_names(f"{table}_old"):
        if op.get_bind().dialect.name != "sqlite":
            op.drop_constraint(constraint, f"{table}_old")
    foreign, primary = f"fk_{table}_run_id", f"pk_{table}"
    if op.get_bind().dialect.name != "sqlite":
        op.drop_constraint(foreign, f"{table}_old", type_="foreignkey")
    constraints: list[sa.schema.SchemaItem] = [
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f(foreign), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", *key, name=op.f(primary)),
    ]
    if unique:
        name = f"uq_{table}_{'_'.join(['run_id', *unique])}"
        constraints.append(sa.UniqueConstraint("run_id", *unique, name=op.f(name)))
    op.create_table(
        table,
        sa.Column("run_id", sa.String(), nullable=False),
        *(sa.Column(name, kind, autoincrement=False, nullable=name in nullable) for name, kind in columns.items()),
        *constraints,
        **({"sqlite_with_rowid": False} if clustered else {}),
    )
    target = ", ".join(["run_id", *columns])
    source = ", ".join(["old.run_id", *(f"old.{name}" for name in types), *(sql for _, sql in added.values())])
    op.execute(f"INSERT INTO {table} ({target}) SELECT {source} FROM {table}_old AS old")  # noqa: S608 - our own names
    op.drop_table(f"{table}_old")


def _unique_names(table: str) -> list[str]:
    found = sa.inspect(op.get_bind()).get_unique_constraints(table)
    return [str(constraint["name"]) for constraint in found]
