"""The projector's tests run on both databases."""

from pathlib import Path

import pytest

from tests.postgres import create_database


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'rlvitals.db'}"
    return create_database(request.getfixturevalue("postgres"))
