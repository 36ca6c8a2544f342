"""The processor time that processes of this machine have used, from `/proc`."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["ProcessorTime", "cpu_seconds", "listener", "used"]


class ProcessorTime(NamedTuple):
    """Seconds of processor time that each side of the ingest benchmark has used."""

    server: float
    """The process that answers the senders."""
    database: float
    """All processes of the PostgreSQL servers of this machine; 0 without one."""
    senders: float
    """This process, whose threads send."""

    def each_since(self, earlier: "ProcessorTime", count: float) -> "ProcessorTime":
        """Return the time since an earlier measurement, for each of some pieces of work."""
        return ProcessorTime(*((now - before) / count for now, before in zip(self, earlier, strict=True)))


def used(port: int) -> ProcessorTime:
    """Return the time that the server of a port, the databases and this process have used until now."""
    database = sum(map(cpu_seconds, _processes("postgres")))
    return ProcessorTime(cpu_seconds(listener(port)), database, time.process_time())


def cpu_seconds(process: int) -> float:
    """Return the processor time of a process with its threads; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def listener(port: int) -> int:
    """Return the process that serves a port: the one that has the port as an argument.

    Raises:
        RuntimeError: If there is none.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(port).encode() in arguments:
            return int(folder.name)
    raise RuntimeError(f"no process serves port {port}")


def _processes(name: str) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found = (folder / "comm").read_text().strip()
        except OSError:
            continue
        if found == name:
            yield int(folder.name)
