"""Reads recorded runs as the commands do."""

from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observations

__all__ = ["read_run"]


def read_run(path):
    """Return the steps of a run folder or of a file of one run."""
    (log,) = find_logs([path])
    return observations(log.read(ReadReport()), log.aliases)
