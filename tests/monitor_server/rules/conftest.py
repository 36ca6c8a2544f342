"""The tests of rules run on both databases."""

from tests.databases import database_url
from tests.monitor_server.simulated_collectors import two_stores

__all__ = ["database_url", "two_stores"]
