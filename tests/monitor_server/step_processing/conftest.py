"""The tests of the projector run on both databases."""

from tests.databases import database_url

__all__ = ["database_url"]
