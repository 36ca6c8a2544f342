"""The tests of the store run on both databases."""

import pytest

from tests.databases import database_url
from tests.faults.conftest import start_trainer
from tests.postgres import postgres_server

__all__ = ["database_url", "start_trainer"]


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL server of a module's own, which its tests may pause or configure."""
    with postgres_server() as server:
        yield server
