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
from typing import Any
from urllib.parse import quote

import psycopg
import psycopg.sql

from tests.live import eventually
from tests.memory import memory_folder
from tests.ports import reserved_port

__all__ = [
    "PostgresServer",
    "copy_database",
    "create_database",
    "create_password_database",
    "drop_database",
    "find_postgres",
    "postgres_server",
    "running_postgres",
]

# The only user whom a server lets in with a password alone.
GUARDED_USER = "guarded"
# The connection to each server on which databases are created and dropped: to open one takes as long as a copy.
_connections: dict[str, psycopg.Connection] = {}


def find_postgres() -> Path | None:
    """Return the folder of PostgreSQL's programs: `POSTGRES_PROGRAMS`, or the newest that is installed; or None."""
    if chosen := os.environ.get("POSTGRES_PROGRAMS"):
        return Path(chosen)
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = installed[-1] if installed else shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


class PostgresServer:
    """A server with its own folder, which can be stopped and started again."""

    def __init__(self, folder: str, port: int) -> None:
        programs = find_postgres()
        assert programs is not None, "PostgreSQL is needed: apt-get install postgresql"
        # PostgreSQL refuses to run as root.
        user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        if user:
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        self._common: dict[str, Any] = {
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "cwd": folder,
            **user,
        }
        create = [programs / "initdb", "-D", folder, "-U", "rlvitals", "--auth=trust", "-E", "UTF8", "--no-sync"]
        create.append("--locale=C")  # as in docker-compose.yml
        subprocess.run(create, check=True, **self._common)
        rules = Path(folder) / "pg_hba.conf"
        rules.write_text(f"host all {GUARDED_USER} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        # Durability is a property of PostgreSQL and is not tested here.
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"
        options += " -c fsync=off -c full_page_writes=off"
        self._command = [programs / "postgres", "-D", folder, *options.split()]
        self._ready = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-d", "postgres"]
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(folder)
        self.port = port
        self.url = f"postgresql+psycopg://rlvitals@127.0.0.1:{port}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._process = subprocess.Popen(self._command, **self._common)
        eventually(lambda: subprocess.run(self._ready, check=False, **self._common).returncode == 0)

    def stop(self) -> None:
        """End the server at once, as in a crash; committed data are there at the next start."""
        if self.url in _connections:
            _connections.pop(self.url).close()
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def restart_as_standby(self) -> None:
        """Start the server again as a standby, whose primary server is nowhere: it answers readers alone."""
        self.stop()
        (self._folder / "standby.signal").touch()
        self.start()

    def pause(self) -> None:
        """Pause all its processes: the kernel goes on taking connections and packets, and no process answers."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)  # the first: it starts the others
        for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), number)


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Yield a server that runs, and end it at the end of the block."""
    # The folder is not below pytest's folders, which another user may not enter.
    folder = tempfile.TemporaryDirectory(prefix="rlvitals-postgres-", dir=memory_folder())
    with folder as data, reserved_port() as port:
        server = PostgresServer(data, port)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """Run a server until the block ends, and yield its address as the start of a URL: a database's name follows."""
    with postgres_server() as server:
        yield server.url


def create_database(server: str) -> str:
    """Create an empty database on a running server, and return its URL."""
    name = f"test_{uuid.uuid4().hex}"
    _execute(server, f"CREATE DATABASE {name}")
    return f"{server}/{name}"


def create_password_database(server: str, password: str, *, encoding: str = "UTF8") -> str:
    """Create an empty database whose owner needs a password, and return its URL."""
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        _execute(server, f"CREATE USER {GUARDED_USER}")
    _execute(server, f"ALTER USER {GUARDED_USER} PASSWORD {psycopg.sql.quote(password)}")
    name = f"test_{uuid.uuid4().hex}"
    options = f"OWNER {GUARDED_USER} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    _execute(server, f"CREATE DATABASE {name} {options}")
    user = f"{GUARDED_USER}:{quote(password, safe='')}"
    return f"{server.replace('rlvitals@', f'{user}@')}/{name}"


def copy_database(template: str) -> str:
    """Copy a database without connections, and return the copy's URL."""
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
