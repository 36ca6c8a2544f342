"""A PostgreSQL server of our own on a free port of this machine, from Debian's package or any on PATH."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.live import eventually
from tests.memory import memory_folder
from tests.ports import reserved_port

__all__ = ["copy_database", "create_database", "drop_database", "find_postgres", "running_postgres"]

# The connection to each server on which databases are created and dropped: to open one takes as long as a copy.
_connections: dict[str, psycopg.Connection] = {}


def find_postgres() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest version first, or None."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = installed[-1] if installed else shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """Run a server until the block ends, and yield its address as the start of a URL: a database's name follows."""
    programs = find_postgres()
    assert programs is not None, "PostgreSQL is needed: apt-get install postgresql"
    # PostgreSQL refuses to run as root.
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    # Not below pytest's folders, which another user may not enter.
    folder = tempfile.TemporaryDirectory(prefix="rlvitals-postgres-", dir=memory_folder())
    with folder as data, reserved_port() as port:
        if user:
            owner = pwd.getpwnam("postgres")
            os.chown(data, owner.pw_uid, owner.pw_gid)
        common = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": data, **user}
        create = [programs / "initdb", "-D", data, "-U", "rlvitals", "--auth=trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(create, check=True, **common)
        # Durability is PostgreSQL's own and is not what is tested.
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={data}"
        options += " -c fsync=off -c full_page_writes=off"
        ready = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-d", "postgres"]
        url = f"postgresql+psycopg://rlvitals@127.0.0.1:{port}"
        with subprocess.Popen([programs / "postgres", "-D", data, *options.split()], **common) as server:
            try:
                eventually(lambda: subprocess.run(ready, check=False, **common).returncode == 0)
                yield url
            finally:
                if url in _connections:
                    _connections.pop(url).close()
                server.send_signal(signal.SIGQUIT)


def create_database(server: str) -> str:
    """Create an empty database on a running server, and return its URL."""
    name = f"test_{uuid.uuid4().hex}"
    _execute(server, f"CREATE DATABASE {name}")
    return f"{server}/{name}"


def copy_database(template: str) -> str:
    """Copy a database to which nobody is connected, and return the copy's URL."""
    server, source = template.rsplit("/", 1)
    name = f"test_{uuid.uuid4().hex}"
    # Without fsync, copying the files is twice as fast as logging their pages.
    _execute(server, f"CREATE DATABASE {name} TEMPLATE {source} STRATEGY FILE_COPY")
    return f"{server}/{name}"


def drop_database(url: str) -> None:
    """Drop a database and the connections to it; do nothing if there is none."""
    server, name = url.rsplit("/", 1)
    _execute(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _execute(server: str, statement: str) -> None:
    connection = _connections.get(server)
    if connection is None or connection.closed:
        connection = psycopg.connect(f"{server}/postgres".replace("+psycopg", ""), autocommit=True)
        _connections[server] = connection
    connection.execute(statement)
