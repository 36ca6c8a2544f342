"""A collector as a process, to be killed."""

import os
import subprocess
import sys
from pathlib import Path


def start(database: Path, port: int) -> "subprocess.Popen[str]":
    """Start a collector on a database and a port, and wait until it listens."""
    command = [sys.executable, "-m", "monitor_server", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--database", f"sqlite:///{database}"],
        env=os.environ | {"RLVITALS_DASHBOARD": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert "is listening" in process.stdout.readline()
    return process
