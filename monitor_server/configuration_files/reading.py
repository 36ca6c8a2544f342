"""Reads a file that a setting or a command names: as a whole, up to a limit, and with a limited wait for data."""

import os
import select
import stat
import tomllib
from pathlib import Path
from typing import Any, Final, TypeAlias

from monitor_server.text_safety.printable import printable

__all__ = ["LONGEST_FILE", "UnusableFileError", "parse_toml", "read_bounded", "read_toml"]

LONGEST_FILE: Final = 1024 * 1024
LARGEST_INTEGER: Final = 2**63 - 1  # of TOML
PIECE_BYTES: Final = 1024 * 1024
Place: TypeAlias = "tuple[Place, str | int] | None"
# A command in <(...) may need to log in somewhere before it writes.
SILENT_SECONDS: Final = 60.0
GIVEN: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
NO_FILES: Final = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class UnusableFileError(ValueError):
    """A file is unreadable, not a regular file, too long, or not TOML; the message names the file and the condition."""


def read_bounded(path: Path, *, longest: int = LONGEST_FILE, silent_seconds: float = SILENT_SECONDS) -> bytes:
    """Return the content of a file.

    A named pipe or a device might never end, and is refused. A file that the shell has opened for this process
    (``<(command)``, ``/dev/stdin``) is read to its end.

    Args:
        path: The file.
        longest: The largest number of bytes of the file.
        silent_seconds: The longest time without data from a pipe of the shell.

    Raises:
        UnusableFileError: If it cannot be read, is not a file, or is longer.
    """
    is_given = str(path).startswith(GIVEN)
    try:
        if not is_given:  # checked before the file is opened, which would wake a process that writes to a pipe
            _refuse_no_file(path, path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
            is_pipe = is_given and (stat.S_ISFIFO(mode) or os.isatty(descriptor))
            if not is_pipe:
                _refuse_no_file(path, mode)
            raw = _read(descriptor, path, longest, silent_seconds if is_pipe else None)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UnusableFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > longest:
        unit, size = ("MiB", longest >> 20) if longest >> 20 else ("bytes", longest)
        raise UnusableFileError(f"{path} must hold at most {size:,} {unit}, got more")
    return raw


def read_toml(path: Path) -> dict[str, Any]:
    """Return the document of a TOML file of at most 1 MiB.

    Raises:
        UnusableFileError: If it cannot be read, is not a file, is longer, or is not TOML.
    """
    raw = read_bounded(path)
    try:
        return parse_toml(raw.decode("utf-8-sig"))  # some editors begin a file with a byte order mark
    except ValueError as error:
        raise UnusableFileError(f"{path} must be TOML: {printable(error, longest=300)}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the document of a text.

    Raises:
        ValueError: If it is not TOML, is nested too deeply, or has an integer of more than 64 bits. Python would refuse
            to print a much longer one, even in the message that refuses it.
    """
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise ValueError("its arrays and tables must not be nested so deeply") from None
    # A place is a chain of keys, because texts would take the length of all names above for each number of an array.
    waiting: list[tuple[Place, Any]] = [(None, document)]
    while waiting:
        place, value = waiting.pop()
        held = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += [((place, key), each) for key, each in held]
        if isinstance(value, int) and not -LARGEST_INTEGER - 1 <= value <= LARGEST_INTEGER:
            raise ValueError(f"an integer must have at most 64 bits, got a longer one at {_spell(place)}")
    return document


def _spell(place: Place) -> str:
    spelled: list[str] = []
    while place is not None:
        place, key = place
        spelled.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    return "".join(reversed(spelled)).removeprefix(".")


def _refuse_no_file(path: Path, mode: int) -> None:
    """Refuse anything that is not a file; a folder is refused when it is read.

    Raises:
        UnusableFileError: If it is not a file.
    """
    for is_kind, name in NO_FILES:
        if is_kind(mode):
            raise UnusableFileError(f"{path} must be a file, got {name}")


def _read(descriptor: int, path: Path, longest: int, silent_seconds: float | None) -> bytes:
    """Return the data of a descriptor until its end, at most one byte more than the limit."""
    read = bytearray()
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    while len(read) <= longest:
        if silent_seconds is not None and not waiting.poll(silent_seconds * 1000):
            raise UnusableFileError(
                f"{path} must be written and closed by the program at its other end: nothing has come for "
                f"{silent_seconds:g} s"
            )
        piece = os.read(descriptor, min(PIECE_BYTES, longest + 1 - len(read)))
        if not piece:
            break
        read += piece
    return bytes(read)
