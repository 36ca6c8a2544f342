"""Rows as dictionaries, whose keys are plain texts."""

from typing import Any

from sqlalchemy import RowMapping

__all__ = ["row_fields"]


def row_fields(row: RowMapping) -> dict[str, Any]:
    """Return the values of a row by the names of its columns."""
    return {str(name): value for name, value in row.items()}
