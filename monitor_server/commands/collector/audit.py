"""`rlvitals audit`: list changes and their authors."""

from typing import Annotated

import typer

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, fetch_list
from monitor_server.commands.terminal import local_time, table

__all__ = ["run"]

COLUMNS = ("at", "by", "action", "project", "target", "detail")


def run(
    *,
    url: CollectorUrl = DEFAULT_URL,
    limit: Annotated[int, typer.Option(help="Largest number of lines to print.")] = 50,
) -> int:
    """Print one line for each change, the newest first."""
    items = fetch_list(url, "/audit", {"limit": str(limit)})
    for item in items:
        item["at"] = local_time(item["at"])
    table(COLUMNS, [[item[name] for name in COLUMNS] for item in items])
    return 0
