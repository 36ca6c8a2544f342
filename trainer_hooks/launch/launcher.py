"""Finds the time at which the ranks of this node were launched; the same on each rank, without communication."""

import os
from pathlib import Path

from trainer_hooks.errors import ConfigurationError

__all__ = ["read_launch_time_ms"]


def read_launch_time_ms() -> int:
    """Read the start time of the process that launched the ranks of this node, in ms since the epoch.

    Raises:
        ConfigurationError: If this is not Linux, or /proc is hidden.
    """
    try:
        pid = os.getppid()
        while pid > 1 and _belongs_to_one_rank(pid):
            pid = int(_read_stat(pid)[1])
        ticks = int(_read_stat(pid)[19])
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines()
            if line.startswith("btime")
        )
    except (OSError, ValueError, IndexError, StopIteration) as error:
        raise ConfigurationError(
            "the launcher's start time cannot be read from /proc; set RLVITALS_ATTEMPT to the same integer on every "
            "rank, the time of the launch in ms ($(date +%s%3N), taken once)"
        ) from error
    return boot * 1000 + ticks * 1000 // os.sysconf("SC_CLK_TCK")


def _belongs_to_one_rank(pid: int) -> bool:
    """Whether a process is a script around one rank, rather than the launcher of all of them."""
    try:
        return b"\0LOCAL_RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # a process of another user: a script around a rank runs as the same user as the rank


def _read_stat(pid: int) -> list[str]:
    """Read the fields of proc_pid_read_stat(5) from the third on; the second, the command, may contain spaces."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
