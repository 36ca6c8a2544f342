"""When the ranks of this node were launched, which all of them find alike without asking each other."""

import os
from pathlib import Path

from trainer_hooks.errors import ConfigurationError

__all__ = ["start_milliseconds"]


def start_milliseconds() -> int:
    """Give the start of the process that has started the ranks of this node, in ms since the epoch.

    Raises:
        ConfigurationError: If this is not Linux, or /proc is hidden.
    """
    try:
        pid = os.getppid()
        while pid > 1 and _belongs_to_one_rank(pid):
            pid = int(_stat(pid)[1])
        ticks = int(_stat(pid)[19])
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
        return False  # of another user: a script around a rank is the rank's own user's


def _stat(pid: int) -> list[str]:
    """Give what proc_pid_stat(5) has from its third field on; the second, the command, may hold spaces."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
