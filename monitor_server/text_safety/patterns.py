"""Patterns for text from outside that is stored."""

from typing import Final

__all__ = ["WITHOUT_NUL"]

WITHOUT_NUL: Final = r"^[^\x00]*$"  # PostgreSQL stores no other text
