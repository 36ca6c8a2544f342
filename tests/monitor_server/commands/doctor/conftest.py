"""Collectors on a database of each kind, with keys and without."""

from tests.databases import database_url
from tests.monitor_server.access.conftest import guarded

__all__ = ["database_url", "guarded"]
