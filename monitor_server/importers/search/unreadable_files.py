"""Why a file that no importer recognises is no log, or could not be read."""

from collections.abc import Callable
from pathlib import Path

from monitor_server.importers.corpus import ENDINGS
from monitor_server.importers.formats import sqlite
from monitor_server.importers.source import is_tar

__all__ = ["PassedOver", "find_fault", "may_hold_anything"]

# Compressed forms that the standard library does not read, and the program that decompresses each.
COMPRESSED = {b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
ARCHIVES = (b"PK\x03\x04", b"7z\xbc\xaf\x27\x1c", b"Rar!")

# Receives a sentence about a file or folder that may contain a log and cannot be read.
PassedOver = Callable[[str], None]


def find_fault(path: Path, beginning: bytes) -> str | None:
    """Return why a file that no importer recognises could not be read; None if it is simply no log."""
    if not beginning:
        return _access_fault(path)
    if _is_archive(beginning):
        return "it is an archive; unpack it, and name the folder"
    program = _compressor(beginning)
    if program is not None:
        return f"it is compressed; decompress it with `{program} -d` first"
    return sqlite.fault(path) if beginning.startswith(sqlite.MAGIC) else None


def may_hold_anything(path: Path, beginning: bytes) -> bool:
    """Whether a packed file is as likely a model or a data set as a log; a log has the ending of one within."""
    return _is_archive(beginning) or (_compressor(beginning) is not None and not path.stem.lower().endswith(ENDINGS))


def _access_fault(path: Path) -> str | None:
    """Return why no byte of a file could be read; None if it is empty."""
    try:
        with path.open("rb") as file:
            return "it is compressed, and damaged at its beginning" if file.read(1) else None
    except FileNotFoundError:  # the file was removed meanwhile
        return None
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def _is_archive(beginning: bytes) -> bool:
    return beginning.startswith(ARCHIVES) or is_tar(beginning)


def _compressor(beginning: bytes) -> str | None:
    return next((program for magic, program in COMPRESSED.items() if beginning.startswith(magic)), None)
