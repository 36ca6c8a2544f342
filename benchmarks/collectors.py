"""A collector in a process of its own, on a free port."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import urllib3

__all__ = ["ROOT", "collector", "wait_until_served"]

ROOT = Path(__file__).parents[1]
READY_SECONDS = 30.0


@contextlib.contextmanager
def collector(database: Path, environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[tuple[str, int]]:
    """Run a collector until the block ends; yield its address, where it is ready, and its process id.

    Args:
        database: Its SQLite file.
        environment: Variables beside those of this process.

    Raises:
        RuntimeError: If it does not start; its own message is on standard error.
    """
    variables = {"RLVITALS_DASHBOARD": "", "RLVITALS_LOG_LEVEL": "error", "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-m", "monitor_server", "serve", "--port", "0", "--database", f"sqlite:///{database}"]
    with subprocess.Popen(  # noqa: S603 - our own server
        command, env=os.environ | variables, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            address = re.search(r"http://[\w.:]+", process.stdout.readline() if process.stdout else "")
            if address is None:
                raise RuntimeError("the collector did not start; see its message above")
            wait_until_served(f"{address[0]}/readyz", lambda: process.poll() is None)
            yield address[0], process.pid
        finally:
            process.terminate()


def wait_until_served(url: str, is_running: Callable[[], bool], *, seconds: float = READY_SECONDS) -> None:
    """Wait until an address answers with success.

    Args:
        url: The address.
        is_running: Whether its server runs still.
        seconds: The longest time to wait.

    Raises:
        RuntimeError: If the server ends, or if it does not answer in time.
    """
    deadline = time.monotonic() + seconds
    with urllib3.PoolManager(retries=False, timeout=5) as pool:
        while time.monotonic() < deadline and is_running():
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                if pool.request("GET", url).status == 200:  # noqa: PLR2004 - HTTP's number for success
                    return
            time.sleep(0.05)
    raise RuntimeError(f"{url} must answer within {seconds:.0f} s; see the server's message above")
