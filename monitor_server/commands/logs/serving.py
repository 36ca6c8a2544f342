"""`rlvitals check --serve`: the runs in a separate dashboard, kept until Ctrl-C or SIGTERM."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from monitor_server.commands.errors import CommandError
from monitor_server.commands.logs.replay import replay_log
from monitor_server.commands.processes import (
    collector_arguments,
    environment_without_settings,
    interrupt_on_signals,
    python_process,
    wait_until_ready,
)
from monitor_server.commands.terminal import error, say
from monitor_server.http_server.server import bind
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import LogError, RecordedLog

__all__ = ["serve_logs"]

PROJECT = "check"


def serve_logs(logs: Sequence[RecordedLog], overrides: Mapping[str, str], calibration: Path | None) -> int:
    """Start a collector on a database that is removed at the end, send it the runs, and wait for Ctrl-C or SIGTERM."""
    interrupt_on_signals()
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="rlvitals-check-") as folder:
        database = f"sqlite:///{Path(folder) / 'check.db'}"
        environment = environment_without_settings()  # it must notify nobody, and remove nothing
        if calibration is not None:
            environment["RLVITALS_CALIBRATION"] = str(calibration)
        with python_process(collector_arguments(port, database), environment) as collector:
            if not wait_until_ready(url, collector):
                raise CommandError("the collector did not start to listen; its last lines are printed above")
            has_steps = False
            for log in logs:
                mapping = NameMapping(overrides, log.aliases, keep_unknown=True)
                try:
                    has_steps |= replay_log(log, mapping, url=url, project=PROJECT)
                except LogError as failure:  # the other logs are still shown
                    error(failure)
            if not has_steps:
                return 1
            say(f"The dashboard is at {url} until Ctrl-C; nothing of it is kept.")
            return collector.wait()
