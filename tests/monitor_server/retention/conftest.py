"""The tests of retention run on both databases."""

from tests.databases import database_url
from tests.monitor_server.simulated_collectors import small_parts, two_stores

__all__ = ["database_url", "small_parts", "two_stores"]
