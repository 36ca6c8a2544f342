"""The parts that tables share: the metadata with its naming convention, and the first columns of a run's tables."""

from sqlalchemy import BigInteger, Column, FetchedValue, ForeignKey, Integer, MetaData, String

__all__ = ["arrival_number", "metadata", "run_key"]

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def run_key() -> Column[str]:
    """Make the run as the first part of a primary key, so that a table can be distributed by run."""
    return Column("run_id", String, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)


def arrival_number(*, is_large: bool = False) -> Column[int]:
    """Make a number in the order of arrival, from PostgreSQL's sequence or, on SQLite, `repositories.numbering`.

    Args:
        is_large: Whether the rows of all runs, removed ones included, may be more than 2^31.
    """
    kind = BigInteger().with_variant(Integer(), "sqlite") if is_large else Integer()
    return Column("number", kind, primary_key=True, autoincrement=False, server_default=FetchedValue())
