"""The tests of the API run on both databases."""

from tests.databases import collector, database_url

__all__ = ["collector", "database_url"]
