"""``python -m trainer_hooks.sync [FOLDER]`` sends the records that dead trainers have left on disk.

It skips folders whose trainer still runs, and folders that another process is sending.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from trainer_hooks.delivery import Transport, send_batch
from trainer_hooks.delivery.spool import SpoolFolder
from trainer_hooks.errors import ConfigurationError, RefusedError, UnavailableError
from trainer_hooks.settings import ConnectionSettings, spool_dir
from trainer_hooks.wire import Receipt

__all__ = ["PatientTransport", "SyncResult", "main", "sync"]

# A collector that is busy for longer has to be looked at.
BUSY_SECONDS = 120.0
INTERRUPTED = 130  # 128 and the number of the signal, as a shell reports it


@dataclass(slots=True)
class SyncResult:
    """The result of sending a spool.

    Attributes:
        sent: Records that the collector has accepted.
        refused: Records that the collector has refused; refused batches stay on disk.
        in_use: Folders that were skipped because their process lives.
        unreadable: Folders, and batches in other folders, that could not be read, such as another user's.
        left_out: Signals of accepted records that were not stored.
    """

    sent: int = 0
    refused: int = 0
    in_use: int = 0
    unreadable: int = 0
    left_out: int = 0


@dataclass(slots=True)
class PatientTransport:
    """Repeats a batch that a busy collector has answered, after the time that it asks for (`Retry-After`).

    Attributes:
        transport: Carries batches.
        sleep: Waits for seconds.
        busy_seconds: The longest wait for one batch.
    """

    transport: Transport
    sleep: Callable[[float], None] = field(default=time.sleep)
    busy_seconds: float = BUSY_SECONDS

    def send(self, body: bytes) -> Receipt:
        """Deliver a batch.

        Raises:
            UnavailableError: If the collector is away, or is busy for too long.
            RefusedError: If the collector will never accept it.
        """
        left = self.busy_seconds
        while True:
            try:
                return self.transport.send(body)
            except UnavailableError as error:
                asked = error.retry_after_seconds
                if not 0 < asked <= left:
                    raise
                if left == self.busy_seconds:
                    print(f"rlvitals: the collector asks to wait: {error}", file=sys.stderr)  # noqa: T201 - a command
                left -= asked
                self.sleep(asked)


def sync(folder: Path, transport: Transport) -> SyncResult:
    """Send and remove every batch below a folder, oldest first, if the process that wrote it is dead.

    Args:
        folder: A spool, or any folder in a spool.
        transport: Carries batches.

    Raises:
        UnavailableError: If the collector is away; batches that were not sent stay.
    """
    result = SyncResult()
    for path in SpoolFolder.find(folder, lambda error: _note_unreadable(Path(error.filename), error, result)):
        try:
            _sync_folder(path, transport, result)
        except OSError as error:
            _note_unreadable(path, error, result)
    return result


def _sync_folder(path: Path, transport: Transport, result: SyncResult) -> None:
    claimed = SpoolFolder.claim(path)
    if claimed is None:
        result.in_use += 1
        return
    try:
        _send(claimed, transport, result)
    finally:
        claimed.release()


def _send(folder: SpoolFolder, transport: Transport, result: SyncResult) -> None:
    for batch in folder.batches():
        try:
            body = batch.read()
        except OSError as error:
            _note_unreadable(batch.path, error, result)
            continue
        try:
            receipt = send_batch(transport, body, partial(_print_config_left_out, batch.path))
        except RefusedError as error:
            print(f"rlvitals: {batch.path} was refused and stays on disk: {error}", file=sys.stderr)  # noqa: T201 - a command
            result.refused += batch.records
            continue
        for rejection in receipt.rejected:
            print(f"rlvitals: a record of {batch.path} was refused: {rejection.detail}", file=sys.stderr)  # noqa: T201 - a command
        if receipt.left_out is not None:
            if not result.left_out:
                print(f"rlvitals: records of {batch.path} lost signals: {receipt.left_out.detail}", file=sys.stderr)  # noqa: T201 - a command
            result.left_out += receipt.left_out.signals
        result.sent += batch.records - len(receipt.rejected)
        result.refused += len(receipt.rejected)
        batch.remove()


def _print_config_left_out(path: Path, refusal: RefusedError) -> None:
    print(f"rlvitals: {path} was sent without the configuration, with which it was refused: {refusal}", file=sys.stderr)  # noqa: T201 - a command


def _note_unreadable(path: Path, error: OSError, result: SyncResult) -> None:
    print(f"rlvitals: {path} cannot be read and stays on disk: {error}", file=sys.stderr)  # noqa: T201 - a command
    result.unreadable += 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Send a spool. Return the exit status: 0, or 1 if not every record was accepted; a line then says why.

    After Ctrl-C the status is 130, as that of a program that this signal ends.
    """
    from trainer_hooks.delivery.http import HttpTransport  # noqa: PLC0415 - as in `connect`

    parser = argparse.ArgumentParser(
        prog="rlvitals sync", description="Send the records that ended trainers have left on disk"
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help="folder of the spool (default: RLVITALS_SPOOL_DIR, or the folder in your cache)",
    )
    parser.add_argument("--url", help="address of the collector (RLVITALS_URL)")
    options = parser.parse_args(arguments)
    folder = options.folder or spool_dir()
    if folder is None or not folder.is_dir():
        parser.error(
            f"FOLDER must be an existing folder, got {folder}"
            if options.folder
            else f"there is no spool at {folder or '~/.cache/rlvitals/spool'}, so no trainer has left records there; "
            "give another folder as FOLDER or by RLVITALS_SPOOL_DIR"
        )
    try:
        settings = ConnectionSettings.resolve(url=options.url, run="sync", rank=0, world_size=1)
        if settings is None or not settings.url:
            parser.error("the address of the collector is missing; give --url or set RLVITALS_URL")
        transport = HttpTransport(settings.url, api_key=settings.api_key)
    except ConfigurationError as error:
        parser.error(str(error))
    try:
        result = sync(folder, PatientTransport(transport))
    except (UnavailableError, OSError, ImportError) as error:
        print(f"rlvitals: {error}; records that were not sent are still on disk", file=sys.stderr)  # noqa: T201 - a command
        return 1
    except KeyboardInterrupt:
        print("rlvitals: interrupted; records that were not sent are still on disk", file=sys.stderr)  # noqa: T201 - a command
        return INTERRUPTED
    print(  # noqa: T201 - a command
        f"{result.sent} records sent, {result.refused} refused, "
        f"{result.in_use} folders skipped because their process still runs"
        + (f"; {result.left_out} signals of these records left out" if result.left_out else "")
    )
    return 1 if result.refused or result.unreadable else 0


if __name__ == "__main__":
    sys.exit(main())
