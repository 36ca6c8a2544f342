"""Finds the launcher of this node's ranks, and reads what all of them find there without communication."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trainer_hooks.errors import ConfigurationError

__all__ = ["may_change_nodes", "read_launch_time_ms"]

# The variables by which launchers tell a process its rank on the node, and the number of ranks there.
RANK_AND_SIZE: Final = (
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"),
)
# What distinguishes a launch from another one that runs inside one of its ranks.
OF_LAUNCH: Final = ("TORCHELASTIC_RUN_ID", "MASTER_PORT")


def read_launch_time_ms(rank: int, world_size: int) -> int:
    """Read the start time of the process that launched the ranks of this node, in ms since the epoch.

    Args:
        rank: This process's rank on the node.
        world_size: The number of ranks on the node.

    Raises:
        ConfigurationError: If this is not Linux, or /proc is hidden.
    """
    try:
        ticks = int(_read_stat(_find_launcher(rank, world_size))[19])
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


def may_change_nodes(environ: Mapping[str, str], rank: int, world_size: int) -> bool:
    """Whether `torchrun` may go on with another number of nodes (``--nnodes=1:2``); False where that is not known.

    Args:
        environ: The environment of this process.
        rank: This process's rank on the node.
        world_size: The number of ranks on the node.
    """
    if "TORCHELASTIC_RUN_ID" not in environ:
        return False
    nodes = environ.get("PET_NNODES", "")  # torchrun reads its options here too
    try:
        command = Path(f"/proc/{_find_launcher(rank, world_size)}/cmdline").read_bytes().decode(errors="replace")
    except (OSError, ValueError, IndexError):
        command = ""
    arguments = command.split("\0")
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, _, value = argument.partition("=")
        if name == "--nnodes":
            nodes = value or following
            break
    fewest, _, most = nodes.partition(":")
    return most not in ("", fewest)


def _find_launcher(rank: int, world_size: int) -> int:
    """Return the id of the nearest ancestor that is not a script around this rank."""
    pid, inside = os.getppid(), _read_environ("self")
    while pid > 1:
        around = _read_environ(pid)
        if not _belongs_to_rank(around, inside, rank, world_size):
            break
        pid, inside = int(_read_stat(pid)[1]), around
    return pid


def _belongs_to_rank(around: Mapping[str, str], inside: Mapping[str, str], rank: int, world_size: int) -> bool:
    """Whether a process is a script around one rank, rather than the launcher of all of them.

    The launcher itself may have such variables: from a shell that exports one, or from a rank that launches others.

    Args:
        around: The environment of the process.
        inside: The environment of its child.
        rank: The rank on the node.
        world_size: The number of ranks on the node.
    """
    numbers = (str(rank), str(world_size))
    return any((around.get(name), around.get(size)) == numbers for name, size in RANK_AND_SIZE) and all(
        around.get(name, inside.get(name)) == inside.get(name) for name in OF_LAUNCH
    )


def _read_environ(pid: int | str) -> dict[str, str]:
    """Read the environment with which a process was started; empty where that is hidden.

    A script around a rank runs as the same user as the rank, so the environment of a process of another user is not
    needed.
    """
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return {name: value for name, _, value in (item.partition("=") for item in content.split("\0"))}


def _read_stat(pid: int) -> list[str]:
    """Read the fields of proc_pid_read_stat(5) from the third on; the second, the command, may contain spaces."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
