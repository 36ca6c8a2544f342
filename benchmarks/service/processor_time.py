"""The processor time that processes of this machine have used."""

import time
from typing import NamedTuple

import psutil

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
    databases = [each.pid for each in psutil.process_iter(["name"]) if each.info["name"] == "postgres"]
    return ProcessorTime(cpu_seconds(listener(port)), sum(map(cpu_seconds, databases)), time.process_time())


def cpu_seconds(process: int) -> float:
    """Return the processor time of a process with its threads; 0 if it has ended or is not shown."""
    try:
        times = psutil.Process(process).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def listener(port: int) -> int:
    """Return the process that serves a port: the one that has the port as an argument.

    Raises:
        RuntimeError: If there is none.
    """
    for process in psutil.process_iter(["cmdline"]):
        if str(port) in (process.info["cmdline"] or ()):
            return int(process.pid)
    raise RuntimeError(f"no process serves port {port}")
