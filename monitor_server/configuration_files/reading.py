"""Reads a TOML file that a person wrote, within a bound."""

import tomllib
from pathlib import Path
from typing import Any, Final

from monitor_server.text_safety.printable import printable

__all__ = ["LONGEST_FILE", "UnusableFileError", "read_toml"]

LONGEST_FILE: Final = 1024 * 1024


class UnusableFileError(ValueError):
    """A file cannot be read, is too long or is no TOML; the message names the file and what must hold."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the document of a TOML file of at most 1 MiB.

    Raises:
        UnusableFileError: If it cannot be read, is longer, or is not TOML.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST_FILE + 1)
    except OSError as error:
        raise UnusableFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > LONGEST_FILE:
        raise UnusableFileError(f"{path} must hold at most 1 MiB, got more")
    try:
        return tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, or a number that is too long
        raise UnusableFileError(f"{path} must be TOML: {printable(error, longest=300)}") from None
