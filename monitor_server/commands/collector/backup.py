"""`rlvitals backup`: copy the database while collectors write to it."""

from pathlib import Path
from typing import Annotated

import typer

from monitor_server.commands.processes import interrupted_by_sigterm
from monitor_server.commands.settings import database_url
from monitor_server.commands.terminal import printable, say
from monitor_server.store.operations.backup import back_up

__all__ = ["run"]


def run(
    *,
    destination: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    database: Annotated[str | None, typer.Option(help="SQLAlchemy URL (RLVITALS_DATABASE_URL).")] = None,
) -> int:
    """Write one consistent snapshot; docs/operations.md describes how to restore it."""
    with interrupted_by_sigterm():
        made = back_up(database_url(database), destination)
    say(f"{printable(destination)}: {made.size_bytes:,} bytes")
    if made.deletions:
        runs = f"{made.deletions:,} deleted run{'s' * (made.deletions != 1)}"
        say(f"it still contains {runs}, whose rows are being removed; make another one in some minutes")
    return 0
