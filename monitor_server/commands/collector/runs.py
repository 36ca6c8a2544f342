"""`rlvitals runs`: list the runs of a collector."""

from typing import Annotated

import typer

from monitor_server.commands.client import DEFAULT_URL, fetch_json
from monitor_server.commands.terminal import table

__all__ = ["run"]

COLUMNS = ("project", "name", "status", "phase", "last_step", "alerts", "id")


def run(
    *,
    url: Annotated[str, typer.Option(help="Address of the collector.")] = DEFAULT_URL,
    limit: Annotated[int, typer.Option(help="Most lines.")] = 50,
) -> int:
    """Print a line a run, the newest first."""
    items = fetch_json("GET", url, "/runs", fields={"limit": str(limit)})["items"]
    table(COLUMNS, [[item[name] for name in COLUMNS] for item in items])
    return 0
