"""A collector that starts migrates a PostgreSQL database that others use; real transactions hold its tables."""

import contextlib
import logging
import threading

import psycopg
import pytest
import sqlalchemy
from alembic import command
from alembic.config import Config

from monitor_server.commands.main import main
from monitor_server.errors import DatabaseUnusable
from monitor_server.store.database import Store
from monitor_server.store.schema import opening
from monitor_server.store.schema.version import MIGRATIONS, newest_schema, schema_version
from tests.live import eventually
from tests.postgres import create_database

WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE datname = current_database() AND NOT granted AND mode = 'AccessExclusiveLock'
"""


@pytest.fixture
def older(postgres, monkeypatch):
    """A database in the schema before the migration 0032, which changes the tables `runs` and `rule_states`."""
    monkeypatch.setattr(opening, "PAUSE_SECONDS", 0.3)
    url = create_database(postgres)
    with _migrated(url, "0031"):
        pass
    return url


@contextlib.contextmanager
def _migrated(url, version):
    """Migrate a database, and commit after the block."""
    engine = sqlalchemy.create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        yield
    engine.dispose()


def _connect(url):
    return psycopg.connect(url.replace("+psycopg", ""))


def _version(url):
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        version = schema_version(connection)
    engine.dispose()
    return version


def test_a_migration_that_meets_a_writer_in_a_deadlock_is_tried_again(older, caplog):
    """The writer holds one of its two tables and asks for the other one; it commits, and then the start goes on."""
    opened = []
    migrating = threading.Thread(target=lambda: opened.append(Store.open(older)))
    with _connect(older) as writer, _connect(older) as watcher, caplog.at_level(logging.WARNING):
        watcher.autocommit = True
        writer.execute("UPDATE rule_states SET run_id = run_id")
        migrating.start()
        eventually(lambda: watcher.execute(WAITING).fetchone()[0])
        writer.execute("UPDATE runs SET name = name")
        writer.commit()
        migrating.join()
    assert [store.close() for store in opened] == [None]
    assert _version(older) == newest_schema()
    assert "the start waits for the tables of the database" in caplog.text


def test_a_migration_that_waits_for_a_long_reader_lets_the_others_go_on(older, caplog, monkeypatch):
    """A backup reads one table for hours: writers get their turns between two attempts, and the start names it."""
    monkeypatch.setattr(opening, "LIMIT_SECONDS", 1.0)
    refused = []

    def open_store():
        with pytest.raises(DatabaseUnusable, match="must be without long transactions") as raised:
            Store.open(older)
        refused.append(raised.value)

    migrating = threading.Thread(target=open_store)
    with _connect(older) as reader, _connect(older) as other, caplog.at_level(logging.WARNING):
        reader.execute("SET application_name = 'pg_dump'")
        reader.execute("SELECT * FROM steps")
        other.autocommit = True
        other.execute("SET lock_timeout = '5s'")
        migrating.start()
        eventually(lambda: other.execute(WAITING).fetchone()[0])
        other.execute("UPDATE runs SET name = name")
        migrating.join()
        process = reader.info.backend_pid
    (error,) = refused
    held = f"process {process} (pg_dump) of PostgreSQL, in a transaction of "
    assert held in caplog.text
    assert held in str(error)
    assert _version(older) == "0031"
    Store.open(older).close()
    assert _version(older) == newest_schema()


@pytest.mark.parametrize("before", ["0028", "0031"])
def test_a_backup_that_begins_during_a_migration_is_refused(before, postgres, tmp_path, capsys):
    """pg_dump would write old rows with a part of the new schema, which nobody can open; the next backup is whole."""
    url, backup, statuses = create_database(postgres), str(tmp_path / "x.db"), []
    with _migrated(url, before):
        pass
    dumping = threading.Thread(target=lambda: statuses.append(main(["backup", backup, "--database", url])))
    with _connect(url) as watcher:
        watcher.autocommit = True
        with _migrated(url, "head"):
            dumping.start()
            eventually(lambda: watcher.execute(WAITING.replace("AccessExclusiveLock", "AccessShareLock")).fetchone()[0])
        dumping.join()
    assert statuses == [1]
    assert "a collector has migrated the tables meanwhile, so make the backup again" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert main(["backup", backup, "--database", url]) == 0
