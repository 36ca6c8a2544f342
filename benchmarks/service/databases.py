"""Empty databases of both kinds: a file of SQLite, and a PostgreSQL server of our own with its usual durability."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["NewDatabase", "databases", "stored_bytes"]

NewDatabase = Callable[[], str]
"""Creates an empty database and returns its URL."""


@contextlib.contextmanager
def databases() -> Iterator[dict[str, NewDatabase]]:
    """Yield how to create a database of each kind that this machine has."""
    with tempfile.TemporaryDirectory(prefix="rlvitals-service-") as folder, contextlib.ExitStack() as stack:
        found: dict[str, NewDatabase] = {"SQLite": lambda: f"sqlite:///{Path(folder) / uuid.uuid4().hex}.db"}
        programs = _programs()
        if programs is not None:
            server = stack.enter_context(_postgres(programs))
            found["PostgreSQL"] = lambda: _create(server)
        yield found


def stored_bytes(url: str) -> int:
    """Return the bytes that a database takes on disk."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    import psycopg  # noqa: PLC0415 - only where there is a server

    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(row[0]) if row else 0


def _programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest version first, or None."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = installed[-1] if installed else shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


@contextlib.contextmanager
def _postgres(programs: Path) -> Iterator[str]:
    user: dict[str, Any] = {}
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
    with tempfile.TemporaryDirectory(prefix="rlvitals-postgres-") as data:
        if user:
            owner = pwd.getpwnam("postgres")
            os.chown(data, owner.pw_uid, owner.pw_gid)
        common: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": data, **user}
        create: list[str | Path] = [programs / "initdb", "-D", data, "-U", "rlvitals", "--auth=trust", "-E", "UTF8"]
        subprocess.run(create, check=True, **common)  # noqa: S603 - PostgreSQL's own
        port = _free_port()
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={data}"
        with subprocess.Popen([programs / "postgres", "-D", data, *options.split()], **common) as server:  # noqa: S603
            try:
                ready: list[str | Path] = [
                    programs / "pg_isready",
                    "-h",
                    "127.0.0.1",
                    "-p",
                    str(port),
                    "-d",
                    "postgres",
                ]
                deadline = time.monotonic() + 60
                while subprocess.run(ready, check=False, **common).returncode:  # noqa: S603 - PostgreSQL's own
                    if time.monotonic() > deadline:
                        raise RuntimeError("PostgreSQL does not start")
                    time.sleep(0.1)
                yield f"postgresql+psycopg://rlvitals@127.0.0.1:{port}"
            finally:
                server.terminate()


def _create(server: str) -> str:
    import psycopg  # noqa: PLC0415 - only where there is a server

    name = f"bench_{uuid.uuid4().hex}"
    with psycopg.connect(f"{server}/postgres".replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server}/{name}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
