"""`rlvitals export`: download a run or a project as a file that `rlvitals check` and `replay` read."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, download, path_part
from monitor_server.commands.errors import CommandError
from monitor_server.commands.repeated_requests import repeat_while_busy
from monitor_server.commands.terminal import printable, say

__all__ = ["run"]

FORMATS = {".jsonl": "jsonl", ".parquet": "parquet"}


def run(
    *,
    run_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Id of the run; `rlvitals runs` lists the ids.")
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="NAME", help="Export all runs of this project instead.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, .jsonl or .parquet.")],
    url: CollectorUrl = DEFAULT_URL,
) -> int:
    """Write the file when it is complete; an existing file is replaced."""
    if (run_id is None) == (project is None):
        raise CommandError("export needs either the id of a run or --project NAME")
    if output.suffix not in FORMATS:
        raise CommandError(f"--output must end in .jsonl or .parquet, got {printable(output.name)!r}")
    query = {"format": FORMATS[output.suffix]} | ({} if project is None else {"project": project})
    path = "/export" if run_id is None else f"/runs/{path_part(run_id)}/export"
    address = f"{path}?{urlencode(query, errors='surrogateescape')}"
    size = repeat_while_busy(lambda: download(url, address, output))  # a collector writes a few exports at once
    if output.is_file():  # else it is a device or a pipe
        say(f"{printable(output)}: {size:,} bytes; `rlvitals check {printable(output)}` reads it")
    return 0
