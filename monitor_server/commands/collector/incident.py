"""`rlvitals incident`: download the report of an alert as one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, download, path_part
from monitor_server.commands.repeated_requests import repeat_while_busy
from monitor_server.commands.terminal import printable, say

__all__ = ["run"]


def run(
    *,
    alert_id: Annotated[str, typer.Argument(metavar="ALERT", help="Id of the alert; `rlvitals alerts` lists the ids.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write (incident-ALERT.html).")
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="Keep or leave out the texts of sampled responses.")
    ] = True,
    url: CollectorUrl = DEFAULT_URL,
) -> int:
    """Write the file when it is complete; an existing file is replaced."""
    identifier = path_part(alert_id)
    file = output or Path(f"incident-{identifier}.html")
    address = f"/alerts/{identifier}/incident?texts={str(texts).lower()}"
    size = repeat_while_busy(lambda: download(url, address, file))  # a collector makes a few reports at once
    if file.is_file():  # otherwise it is a device or a pipe, possibly the one for this line
        say(f"{printable(file)}: {size:,} bytes; any browser opens it")
    return 0
