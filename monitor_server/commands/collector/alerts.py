"""`rlvitals alerts`: list the alerts of a collector, or acknowledge one."""

import getpass
from typing import Annotated
from urllib.parse import quote

import typer

from monitor_server.commands.client import DEFAULT_URL, fetch_json
from monitor_server.commands.terminal import printable, say, table

__all__ = ["run"]

COLUMNS = (
    "project",
    "run",
    "severity",
    "state",
    "kind",
    "opened_step",
    "severity_step",
    "id",
    "acknowledged_by",
    "summary",
)


def run(
    *,
    ack: Annotated[str | None, typer.Option(metavar="ID", help="Acknowledge this alert instead of listing.")] = None,
    by: Annotated[str | None, typer.Option(help="Who acknowledges it (your user name).")] = None,
    note: Annotated[str, typer.Option(help="A note that is kept with the acknowledgement.")] = "",
    url: Annotated[str, typer.Option(help="Address of the collector.")] = DEFAULT_URL,
    limit: Annotated[int, typer.Option(help="Most lines.")] = 50,
) -> int:
    """Print a line an alert, the newest first, or acknowledge one."""
    if ack is None:
        items = fetch_json("GET", url, "/alerts", fields={"limit": str(limit)})["items"]
        table(COLUMNS, [[item[name] for name in COLUMNS] for item in items])
        return 0
    body = {"by": by or getpass.getuser(), "note": note}
    alert = fetch_json("POST", url, f"/alerts/{quote(ack, safe='')}/ack", json=body)
    kind, name, state, person = (printable(alert[key]) for key in ("kind", "run", "state", "acknowledged_by"))
    say(f"{kind} of {name}: {state}, acknowledged by {person}")
    return 0
