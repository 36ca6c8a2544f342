"""The tests of ingest run on both databases."""

from tests.databases import collector, database_url

__all__ = ["collector", "database_url"]
