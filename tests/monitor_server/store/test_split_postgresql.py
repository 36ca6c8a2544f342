"""The tables of an installation on PostgreSQL stay in one schema, also where a schema of another name is made later."""

import contextlib
import logging
import re
from urllib.parse import quote

import psycopg
import pytest
import sqlalchemy
from alembic import command
from alembic.config import Config

from monitor_server.commands.main import main
from monitor_server.errors import DatabaseUnusable
from monitor_server.store.database import Store
from monitor_server.store.schema.version import MIGRATIONS
from tests.postgres import create_database

SCHEMAS = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename IN ('runs', 'channel_results')"


def _connect(url):
    return contextlib.closing(psycopg.connect(url.partition("?")[0].replace("+psycopg", ""), autocommit=True))


def _with_options(url, *options):
    return url + "?" + "&".join(f"options={quote(option)}" for option in options)


@pytest.fixture
def older(postgres):
    """A database in the schema 0028, which lacks the table `channel_results`."""
    url = create_database(postgres)
    engine = sqlalchemy.create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0028")
    engine.dispose()
    return url


def test_new_tables_come_into_the_schema_of_the_older_ones(older, tmp_path):
    """A schema of the user's name precedes `public` in the default search path, and a backup holds one schema."""
    with _connect(older) as connection:
        connection.execute("CREATE SCHEMA rlvitals")
        Store.open(older).close()
        assert connection.execute(SCHEMAS).fetchall() == [("public",)]
    assert main(["backup", str(tmp_path / "x.dump"), "--database", older]) == 0


def test_who_owns_the_tables_but_may_make_none_beside_them_is_told_the_missing_right(older):
    """The user's own schema, in which new tables could be made, must not get them."""
    with _connect(older) as connection:
        connection.execute("CREATE ROLE poor LOGIN")
        connection.execute("CREATE SCHEMA poor AUTHORIZATION poor")
        for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            connection.execute(f"ALTER TABLE {name} OWNER TO poor")
        with pytest.raises(DatabaseUnusable, match=r"denied for schema public; .* have CREATE on their schema"):
            Store.open(older.replace("rlvitals@", "poor@"))
        connection.execute("REASSIGN OWNED BY poor TO CURRENT_USER")
        connection.execute("DROP OWNED BY poor")
        connection.execute("DROP ROLE poor")


def test_a_backup_of_tables_in_two_schemas_is_refused_until_they_are_moved(postgres, tmp_path, capsys):
    """It could not be restored; the statement that the error names mends the database."""
    url = create_database(postgres)
    ask = ["backup", str(tmp_path / "x.dump"), "--database", url]
    with _connect(url) as connection:
        connection.execute("CREATE SCHEMA rlvitals")
        connection.execute('CREATE SCHEMA "of ""a"" team"')
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE {name} SET search_path = "of ""a"" team", "$user"')
        Store.open(url).close()
        connection.execute('ALTER TABLE "of ""a"" team".channel_results SET SCHEMA rlvitals')
        assert main(ask) == 1
        connection.execute(re.search("ALTER TABLE .*", capsys.readouterr().err)[0])
    assert main(ask) == 0


def test_a_backup_takes_the_options_of_an_address_that_names_them_twice(postgres, tmp_path):
    """A collector takes them too."""
    url = _with_options(create_database(postgres), "-c work_mem=8MB", "-c search_path=apart")
    with _connect(url) as connection:
        connection.execute("CREATE SCHEMA apart")
    Store.open(url).close()
    assert main(["backup", str(tmp_path / "x.dump"), "--database", url]) == 0


def test_a_new_installation_beside_another_one_is_logged(postgres, caplog):
    """Who restored an archive of that schema would find no runs, and trainers would be stored elsewhere."""
    url = create_database(postgres)
    with _connect(url) as connection, caplog.at_level(logging.WARNING):
        connection.execute("CREATE SCHEMA apart")
        Store.open(_with_options(url, "-c search_path=apart")).close()
        assert "new installation" not in caplog.text
        Store.open(url).close()
        assert "begins in the schema public of the database, which has the tables of rlvitals in apart" in caplog.text
        caplog.clear()
        Store.open(url).close()
        assert "new installation" not in caplog.text


def test_a_migration_that_a_view_blocks_names_what_to_do(older):
    """A view for Grafana uses a column whose type changes; once it is dropped, the start succeeds."""
    with _connect(older) as connection:
        connection.execute("CREATE VIEW shown AS SELECT number FROM responses")
        with pytest.raises(DatabaseUnusable, match="such as a view that somebody has made, drop it"):
            Store.open(older)
        connection.execute("DROP VIEW shown")
    Store.open(older).close()
