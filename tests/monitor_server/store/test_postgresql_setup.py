"""The needed properties of a PostgreSQL database are stated at the start and by `rlvitals doctor`, with the remedy."""

import contextlib
import getpass
import os
import shutil
import socket
import struct
import subprocess
import threading

import psycopg
import pytest

from monitor_server.errors import DatabaseUnusable
from monitor_server.store.database import Store
from monitor_server.store.operations.inspection import inspect_database
from tests.live import eventually
from tests.ports import reserved_port
from tests.postgres import create_database, create_password_database
from tests.store_connections import current_connection

SPECIAL = "p@ss/w:o%r +&?#"


def _create_database_with(postgres, setting, value):
    """Return the URL of a new database that has its own default of a setting."""
    url = create_database(postgres)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {setting} = '{value}'")
    return url


def _written_setting(url, name):
    """Return the value of a setting in a transaction that writes."""
    store = Store.open(url)
    with store.write():
        value = current_connection().exec_driver_sql(f"SHOW {name}").scalar()
    store.close()
    return value


def _is_listening(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _refusals(url):
    for read in (Store.open, inspect_database):
        with pytest.raises(DatabaseUnusable) as raised:
            read(url)
        yield str(raised.value)


def test_a_user_with_any_password_needs_no_more_than_to_own_the_database(postgres):
    """docs/operations.md creates them so. One connection is enough to open it, where no pooler is in between."""
    url = create_password_database(postgres, SPECIAL)
    with psycopg.connect(postgres.replace("+psycopg", "") + "/postgres", autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {url.rpartition('/')[2]} CONNECTION LIMIT 1")
    Store.open(url).close()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_store_every_text_is_refused(encoding, postgres):
    """A name of a run in another script would be an error of the collector."""
    for refusal in _refusals(create_password_database(postgres, SPECIAL, encoding=encoding)):
        assert f"it has {encoding}" in refusal
        assert "createdb --encoding=UTF8" in refusal


def test_a_replica_is_refused_at_the_start(postgres):
    """It would take no batch."""
    for refusal in _refusals(_create_database_with(postgres, "default_transaction_read_only", "on")):
        assert "address of the primary server" in refusal


@pytest.mark.parametrize("default", ["repeatable read", "serializable"])
def test_a_transaction_that_writes_sees_what_others_have_committed(default, postgres):
    """Under another default of the database, batches of runs that others change were refused."""
    url = _create_database_with(postgres, "default_transaction_isolation", default)
    assert _written_setting(url, "transaction_isolation") == "read committed"


@pytest.mark.parametrize(("default", "used"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")])
def test_a_commit_is_on_disk_before_it_is_confirmed(default, used, postgres):
    """Also where the database's default answers earlier; how many servers must have it is for the operator to say."""
    url = _create_database_with(postgres, "synchronous_commit", default)
    assert _written_setting(url, "synchronous_commit") == used


def test_a_time_that_is_read_is_equal_to_the_stored_one(postgres):
    """Under the default of old servers, no run of a collector that had died could be claimed by its old ownership."""
    url = _create_database_with(postgres, "extra_float_digits", "0")
    time = 1796128097.0450184
    with contextlib.closing(Store.open(url)) as store, store.write():
        assert current_connection().exec_driver_sql(f"SELECT float8 '{time!r}'").scalar() == time


def test_a_limit_of_whole_transactions_ends_no_migration(postgres):
    """The role of the collector may have one for the sake of other programs; PostgreSQL knows it since version 17."""
    url = create_database(postgres)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        if connection.info.server_version < 17_00_00:
            pytest.skip("this server has no limit of whole transactions")
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET transaction_timeout = 100")
    assert _written_setting(url, "transaction_timeout") == "0"


def test_missing_values_of_arrays_are_written_as_missing_ones(postgres):
    """Under the other default of a database they would be the text NULL, and records could not be told apart."""
    assert _written_setting(_create_database_with(postgres, "array_nulls", "off"), "array_nulls") == "on"


@pytest.mark.parametrize("statement", ["CREATE TABLE runs (id int)", "CREATE TYPE steps AS ENUM ('a')"])
def test_a_database_that_has_our_names_from_another_program_is_refused(statement, postgres):
    """The user, the address and the rights are all right, so they are not asked for."""
    url = create_database(postgres)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(statement)
    with pytest.raises(DatabaseUnusable, match=r"already exists.*that rlvitals has for itself"):
        Store.open(url)


def test_a_search_path_without_a_schema_is_named(postgres):
    """A list of schemas in one pair of quotes is one name with a comma."""
    with pytest.raises(DatabaseUnusable, match="search_path of the connection must name a schema"):
        Store.open(_create_database_with(postgres, "search_path", "lab,public"))


def test_a_pooler_that_drops_options_is_refused(postgres):
    """Without them nothing bounds a statement, and its transaction mode breaks prepared statements."""
    for refusal in _refusals(f"{create_database(postgres)}?options=-c%20rlvitals.options%3D"):
        assert "address of PostgreSQL itself" in refusal


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_is_used_if_it_gives_each_connection_a_session(mode, postgres, tmp_path):
    """In its transaction mode healthy runs were put into quarantine, because prepared statements were lost."""
    if shutil.which("pgbouncer") is None and os.environ.get("CI") != "true":
        pytest.skip("needs pgbouncer: apt-get install pgbouncer")
    url = create_database(postgres)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        name, port_of_server, user = connection.info.dbname, connection.info.port, connection.info.user
        connection.execute(f"ALTER DATABASE {name} SET rlvitals.options = 'arrived'")
    with reserved_port() as port:
        (tmp_path / "pgbouncer.ini").write_text(
            f"[databases]\n{name} = host=127.0.0.1 port={port_of_server} user={user}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
            f"ignore_startup_parameters = extra_float_digits, options\n"
        )
        unprivileged = ["--user", "postgres"] if getpass.getuser() == "root" else []
        command = ["pgbouncer", "--quiet", *unprivileged, tmp_path / "pgbouncer.ini"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as pooler:
            try:
                eventually(lambda: _is_listening(port))
                pooled = url.replace(f":{port_of_server}/", f":{port}/")
                if mode == "session":
                    Store.open(pooled).close()
                else:
                    for refusal in _refusals(pooled):
                        assert "a pooler gives one session to several" in refusal
            finally:
                pooler.terminate()


@pytest.mark.parametrize(
    "said", ["unsupported startup parameter: options", "transaction blocks not allowed in statement pooling mode"]
)
def test_a_pooler_that_refuses_a_connection_is_named(said):
    """The first is the answer of pgbouncer unless its ignore_startup_parameters names options."""

    def answer():
        for _ in range(2):
            connection, _ = pooler.accept()
            with connection:
                connection.recv(4_096)
                fields = b"SFATAL\0VFATAL\0C08P01\0M" + said.encode() + b"\0\0"
                connection.sendall(b"E" + struct.pack("!i", len(fields) + 4) + fields)

    with socket.create_server(("127.0.0.1", 0)) as pooler:
        thread = threading.Thread(target=answer)
        thread.start()
        port = pooler.getsockname()[1]
        for refusal in _refusals(
            f"postgresql+psycopg://rlvitals@127.0.0.1:{port}/x?sslmode=disable&gssencmode=disable"
        ):
            assert "a pooler does not take the options" in refusal
        thread.join()
