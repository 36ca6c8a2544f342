"""Finds the tables of rlvitals in a database, and tells its installations in one PostgreSQL database apart."""

from typing import Final

__all__ = ["OUR_TABLE", "POSTGRES_NUMBER", "POSTGRES_SCHEMA"]

OUR_TABLE: Final = "detector_states"
"""A table of every version, which other programs with migrations of Alembic, such as MLflow, do not have."""
POSTGRES_SCHEMA: Final = f"""
SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid
WHERE pg_class.oid = to_regclass('{OUR_TABLE}')"""  # noqa: S608 - our name
"""The query of the name of the schema with our tables; no row if there are none."""
POSTGRES_NUMBER: Final = f"""
SELECT CASE nspname WHEN 'public' THEN 0 ELSE oid::bigint END FROM pg_namespace WHERE oid = coalesce(
  (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{OUR_TABLE}')),
  to_regnamespace(quote_ident(current_schema()))
)"""  # noqa: S608 - our name
"""The query of the number of an installation: the oid of the schema that has its tables, or in which it will make them;
0 for ``public``, because versions that knew one installation in a database had no such number."""
