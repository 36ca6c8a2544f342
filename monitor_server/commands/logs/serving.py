"""`rlvitals check --serve`: the runs in a dashboard of their own, kept until Ctrl-C."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from monitor_server.commands.client import fetch_json
from monitor_server.commands.errors import CommandError
from monitor_server.commands.logs.replay import replay_log
from monitor_server.commands.terminal import say
from monitor_server.http_server.server import bind
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import Log

__all__ = ["serve_logs"]

PROJECT = "check"
START_SECONDS = 60.0
STOP_SECONDS = 10.0


def serve_logs(logs: Sequence[Log], overrides: Mapping[str, str]) -> int:
    """Start a collector on a database that is removed at the end, send it the runs, and wait for Ctrl-C."""
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="rlvitals-check-") as folder:
        database = f"sqlite:///{Path(folder) / 'check.db'}"
        command = [sys.executable, "-m", "monitor_server", "serve", "--port", str(port), "--database", database]
        collector = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own module
        try:
            _wait_until_ready(url, collector)
            for log in logs:
                mapping = NameMapping(overrides, log.aliases, keep_unknown=True)
                replay_log(log, mapping, url=url, project=PROJECT)
            say(f"The dashboard is at {url} until Ctrl-C; nothing of it is kept.")
            return collector.wait()
        finally:
            collector.terminate()
            try:
                collector.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                collector.kill()
                collector.wait()


def _wait_until_ready(url: str, collector: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if collector.poll() is not None:
            raise CommandError("the collector ended before it listened; its last lines stand above")
        try:
            fetch_json("GET", url, "/runs", fields={"limit": "1"})
        except CommandError:
            time.sleep(0.2)
        else:
            return
    raise CommandError(f"the collector did not listen on {url} within {START_SECONDS:g} seconds")
