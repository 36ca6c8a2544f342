"""Reads a file of JSON objects, one a line; errors name the place."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainer_hooks.text_safety import encodable

__all__ = ["FileError", "read_lines", "text_of"]


class FileError(ValueError):
    """A file does not have the required content; the message names file, line and field."""


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each line's place, as ``file:line``, and its object; empty lines are skipped.

    Raises:
        FileError: If the file cannot be read, holds no line, or a line is not a JSON object.
    """
    is_empty = True
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    is_empty = False
                    yield f"{path}:{number}", _object(f"{path}:{number}", line)
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} must be a readable UTF-8 file: {error}") from error
    if is_empty:
        raise FileError(f"{path} must hold at least one JSON object, got an empty file")


def text_of(place: str, row: dict[str, Any], field: str) -> str:
    """Return a text field, which must not be empty, with escapes for what UTF-8 cannot encode.

    Raises:
        FileError: If it is missing, empty or of another type.
    """
    if field not in row:
        raise FileError(f"{place}: field {field!r} must be there, got {', '.join(map(repr, row)) or 'no field'}")
    value = row[field]
    if not isinstance(value, str) or not value.strip():
        raise FileError(f"{place}: field {field!r} must be a text that is not empty, got {value!r}")
    return encodable(value)


def _object(place: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # lists in lists, deeper than the parser follows
        raise FileError(f"{place}: must be one JSON object a line: {error}") from error
    if not isinstance(row, dict):
        raise FileError(f"{place}: must be one JSON object a line, got a {type(row).__name__}")
    return row
