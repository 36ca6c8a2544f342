"""Fixtures of tests that run on SQLite and on PostgreSQL, and a way to keep a collector from writing.

A `conftest.py` imports the fixtures that its folder needs. A test of a property of SQLite restricts them by
`sqlite_only`.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from monitor_server.store.database import Store
from tests.live import LiveCollector, serving_all_tests
from tests.postgres import copy_database, create_database, drop_database

__all__ = [
    "blocked_writes",
    "collector",
    "database_url",
    "enlarge_configurations",
    "execute",
    "migrated_postgres",
    "migrated_sqlite",
    "postgres_collector",
    "sqlite_only",
]

sqlite_only = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(scope="session")
def migrated_postgres(postgres: str) -> Callable[[], str]:
    """Return a function that creates a database with today's schema; it copies one that was migrated once."""
    template = create_database(postgres)
    Store.open(template).close()
    return lambda: copy_database(template)


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """Return a function that creates a database file with today's schema; it copies one that was migrated once."""
    template = tmp_path_factory.mktemp("template") / "rlvitals.db"
    Store.open(f"sqlite:///{template}").close()

    def create(folder: Path) -> str:
        return f"sqlite:///{shutil.copyfile(template, folder / 'rlvitals.db')}"

    return create


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of each kind without data."""
    if request.param == "sqlite":
        yield str(request.getfixturevalue("migrated_sqlite")(tmp_path))
        return
    url = str(request.getfixturevalue("migrated_postgres")())
    yield url
    drop_database(url)


@pytest.fixture(scope="session")
def postgres_collector(migrated_postgres: Callable[[], str]) -> Iterator[LiveCollector]:
    """A collector on PostgreSQL for the whole session; tests keep apart by the names of their runs."""
    with serving_all_tests(migrated_postgres()) as live:
        yield live


@pytest.fixture(params=["sqlite_collector", "postgres_collector"], ids=["sqlite", "postgresql"])
def collector(request: pytest.FixtureRequest) -> LiveCollector:
    """A collector on a database of each kind, each for the whole session."""
    live: LiveCollector = request.getfixturevalue(request.param)
    return live


@contextlib.contextmanager
def blocked_writes(database_url: str) -> Iterator[Any]:
    """Keep everybody else from writing until the block ends, or the connection that is yielded commits."""
    engine = sqlalchemy.create_engine(database_url)
    is_sqlite = engine.dialect.name == "sqlite"
    lock = "BEGIN IMMEDIATE" if is_sqlite else "LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"
    try:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(lock))
            yield connection
            connection.rollback()
    finally:
        engine.dispose()


def execute(database_url: str, statements: Mapping[str, str]) -> None:
    """Execute the statement of the database's kind, beside the collector, and commit it."""
    engine = sqlalchemy.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(statements[engine.dialect.name]))
    engine.dispose()


def enlarge_configurations(database_url: str, size: int) -> None:
    """Let each run have a configuration of at least ``size`` bytes, which would take long to send as a batch."""
    texts = {  # a colon without a backslash would be a parameter
        "sqlite": rf"""CAST('{{"text"\: "' || hex(zeroblob({size // 2})) || '"}}' AS BLOB)""",
        "postgresql": rf"""convert_to('{{"text"\: "' || repeat('x', {size}) || '"}}', 'UTF8')""",
    }
    statements = {kind: f"UPDATE runs SET config = {text}" for kind, text in texts.items()}  # noqa: S608
    execute(database_url, statements)
