"""``python -m trainer_hooks.sync [FOLDER]``: sends what trainers that no longer live have left on disk.

A folder whose trainer still lives is left alone, and so is one that another process is sending.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_hooks.delivery import RefusedError, Transport, UnavailableError
from trainer_hooks.delivery.spool import Folder
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.settings import ConnectionSettings, spool_dir

__all__ = ["Synced", "main", "sync"]


@dataclass(slots=True)
class Synced:
    """What became of the records of a spool.

    Attributes:
        sent: Records that the collector has answered for.
        refused: Records that it does not take; their batches stay on disk.
        in_use: Folders left alone, because their process lives.
    """

    sent: int = 0
    refused: int = 0
    in_use: int = 0


def sync(folder: Path, transport: Transport) -> Synced:
    """Send every batch below a folder whose process is dead, oldest first, and remove it.

    Args:
        folder: A spool, or any folder in one.
        transport: Carries batches.

    Raises:
        UnavailableError: If the collector is away; what was not sent stays.
        OSError: If the disk cannot be read.
    """
    synced = Synced()
    for path in Folder.below(folder):
        claimed = Folder.claim(path)
        if claimed is None:
            synced.in_use += 1
            continue
        try:
            _send(claimed, transport, synced)
        finally:
            claimed.release()
    return synced


def _send(folder: Folder, transport: Transport, synced: Synced) -> None:
    for batch in folder.batches():
        try:
            receipt = transport.send(batch.read())
        except RefusedError as error:
            print(f"rlvitals: {batch.path} was refused, and stays: {error}", file=sys.stderr)  # noqa: T201 - a command
            synced.refused += batch.records
            continue
        for rejection in receipt.rejected:
            print(f"rlvitals: a record of {batch.path} was refused: {rejection.detail}", file=sys.stderr)  # noqa: T201 - a command
        synced.sent += batch.records - len(receipt.rejected)
        synced.refused += len(receipt.rejected)
        batch.remove()


def main(arguments: Sequence[str] | None = None) -> int:
    """Send a spool, and give the exit status: 0, or 1 where not all was taken, and a line says why."""
    from trainer_hooks.delivery.http import HttpTransport  # noqa: PLC0415 - as in `connect`

    parser = argparse.ArgumentParser(prog="trainer_hooks.sync", description="Send what dead trainers have left on disk")
    parser.add_argument("folder", nargs="?", type=Path, help="spool (RLVITALS_SPOOL_DIR, else the one in your cache)")
    parser.add_argument("--url", help="address of the collector (RLVITALS_URL)")
    given = parser.parse_args(arguments)
    folder = given.folder or spool_dir()
    if folder is None or not folder.is_dir():
        parser.error(f"there must be a spool, got no folder at {folder}")
    try:
        settings = ConnectionSettings.resolve(url=given.url, run="sync", rank=0, world_size=1)
    except ConfigurationError as error:
        parser.error(str(error))
    if settings is None or not settings.url:
        parser.error("the collector's address must be known; give --url or set RLVITALS_URL")
    try:
        synced = sync(folder, HttpTransport(settings.url, api_key=settings.api_key))
    except (UnavailableError, OSError) as error:
        print(f"rlvitals: {error}; what was not sent is still there", file=sys.stderr)  # noqa: T201 - a command
        return 1
    print(  # noqa: T201 - a command
        f"{synced.sent} records sent, {synced.refused} refused, {synced.in_use} folders left to their living processes"
    )
    return 1 if synced.refused else 0


if __name__ == "__main__":
    sys.exit(main())
