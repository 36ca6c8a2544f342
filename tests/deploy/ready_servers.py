"""Runs servers that say at /-/ready when they are ready."""

import contextlib
import subprocess

import urllib3

from tests.live import eventually


@contextlib.contextmanager
def running(command, url, log_path):
    """Run a server until the block ends, and yield when it answers that it is ready."""

    def is_ready():
        assert process.poll() is None, log_path.read_text()
        with contextlib.suppress(urllib3.exceptions.HTTPError):
            return urllib3.request("GET", f"{url}/-/ready", timeout=10, retries=False).status == 200
        return False

    with log_path.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            eventually(is_ready)
            yield
        finally:
            process.kill()
