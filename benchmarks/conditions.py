"""States the time and the machine of a measurement."""

import os
import platform
import subprocess
import time
from importlib.metadata import version

__all__ = ["conditions"]


def conditions(seconds: float) -> str:
    """Return the time and the machine of a measurement in one line."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - the developer's own git
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    load = os.getloadavg()[0]
    return (
        f"<small>{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, commit {commit or 'unknown'}, rlvitals "
        f"{version('rlvitals')}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {load:.1f} at the end, measured in {seconds:.0f} s</small>"
    )
