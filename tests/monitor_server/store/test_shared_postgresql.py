"""Two installations, each in a schema of one PostgreSQL database, do not notice each other."""

import contextlib
import subprocess
from urllib.parse import quote

import psycopg
import pytest

from monitor_server.commands.main import main
from monitor_server.store.database import Store
from tests.live import eventually
from tests.postgres import create_database, find_postgres

OTHER = "Team_B"


@pytest.fixture(scope="module")
def urls(postgres):
    """The addresses of two installations, one in the schema ``public``; a user of its own owns each schema."""
    url = create_database(postgres)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        user = f"owner_in_{connection.info.dbname}"
        connection.execute(f"CREATE ROLE {user} LOGIN")
        connection.execute(f'CREATE SCHEMA "{OTHER}" AUTHORIZATION {user}')
    path = quote(f'-c search_path="{OTHER}"')
    return [url, f"{url.replace('rlvitals@', f'{user}@')}?options={path}"]


@contextlib.contextmanager
def _opened(urls):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(Store.open(url))) for url in urls]


def test_live_events_stay_in_their_installation(urls):
    """A notification reaches every session of the database that listens to its channel, and runs may be named alike."""
    heard = ([], [], [], [])
    with _opened([*urls, *urls]) as stores, contextlib.ExitStack() as stack:
        channels = [
            store.open_notifications(messages.append, lambda: None)
            for store, messages in zip(stores, heard, strict=True)
        ]
        for channel in channels:
            channel.start()
            stack.callback(channel.stop)
        eventually(lambda: all(channel.is_listening for channel in channels))
        channels[0].send(lambda: "of the first")
        eventually(lambda: heard[2])
        channels[1].send(lambda: "of the second")
        eventually(lambda: heard[3])
    assert heard == ([], [], ["of the first"], ["of the second"])


def test_the_work_of_one_collector_at_a_time_goes_on_in_both_installations(urls):
    """While one removes data, the other one may too; a further collector of the same installation may not."""
    with _opened([*urls, *urls]) as stores, contextlib.ExitStack() as stack:
        maintained = [stack.enter_context(store.write()).lock_maintenance() for store in stores]
    assert maintained == [True, True, False, False]


@pytest.mark.parametrize("place", [0, 1])
def test_a_backup_holds_one_installation(urls, place, postgres, tmp_path):
    """It needs no rights on the other one, and is restored into a new database."""
    with _opened(urls):
        backup = tmp_path / "x.dump"
        assert main(["backup", str(backup), "--database", urls[place]]) == 0
    restored = create_database(postgres).replace("+psycopg", "")
    subprocess.run(
        [find_postgres() / "pg_restore", "--single-transaction", "--no-owner", f"--dbname={restored}", backup],
        check=True,
    )
    with psycopg.connect(restored) as connection:
        query = "SELECT schemaname FROM pg_tables WHERE tablename = 'runs'"
        assert connection.execute(query).fetchall() == [(("public", OTHER)[place],)]
