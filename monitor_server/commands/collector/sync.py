"""`rlvitals sync`: send the batches that trainers have left on disk."""

import subprocess
import sys
from typing import Annotated

import typer

__all__ = ["run"]


def run(
    *,
    folder: Annotated[
        str | None, typer.Argument(help="Folder of the spool (RLVITALS_SPOOL_DIR, or the folder in your cache).")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Address of the collector (RLVITALS_URL).")] = None,
) -> int:
    """Run `trainer_hooks.sync` in a process of its own: the collector's package imports only the SDK's wire schema."""
    options = [*([folder] if folder else []), *(["--url", url] if url else [])]
    with subprocess.Popen([sys.executable, "-m", "trainer_hooks.sync", *options]) as process:  # noqa: S603 - our own module
        try:
            return process.wait()
        except KeyboardInterrupt:  # the terminal has sent it to both processes
            return process.wait()
