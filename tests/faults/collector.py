"""A collector in its own process, which a test can kill."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import warm

Process = warm.WarmProcess | subprocess.Popen[bytes]


@contextlib.contextmanager
def start(database: Path | str, port: int, *, is_warm: bool = True) -> Iterator[Process]:
    """Start a collector on a database and a port, wait until it listens, and kill it at the end if it still runs.

    Args:
        database: The file of a SQLite database, or the URL of any.
        port: The port to listen on.
        is_warm: Whether to fork it from the interpreter that has imported its libraries.
    """
    url = database if isinstance(database, str) else f"sqlite:///{database}"
    arguments = ["-m", "monitor_server", "serve", "--port", str(port), "--database", url]
    environment = os.environ | {"RLVITALS_DASHBOARD": ""}
    readable, writable = os.pipe()
    with open(readable) as output:  # noqa: PTH123 - a descriptor, not a path
        try:
            process: Process = (
                warm.start(arguments, env=environment, stdout=writable)
                if is_warm
                else subprocess.Popen([sys.executable, *arguments], env=environment, stdout=writable)
            )
        finally:
            os.close(writable)
        try:
            printed: list[str] = []
            for line in output:
                printed.append(line)
                if "is listening" in line:
                    break
            assert any("is listening" in line for line in printed), printed
            yield process
        finally:
            process.kill()
            process.wait()
