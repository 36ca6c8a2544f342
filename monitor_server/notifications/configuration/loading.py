"""Reads the file of channels and routes strictly: every problem is reported with its place, and no secret is shown."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from monitor_server.configuration_files.reading import UnusableFileError, read_bounded, read_toml
from monitor_server.errors import StartupError
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.text_safety.printable import printable

__all__ = [
    "PLACEHOLDER",
    "SECRET_FIELDS",
    "UnusableDocumentError",
    "load_notifications",
    "read_document",
    "refusal_of_both",
    "spell_problem",
]

PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET_FIELDS = {"url", "secret"}


class UnusableDocumentError(ValueError):
    """A document of channels and routes cannot be used.

    Attributes:
        problems: Each with its place and the condition that must hold; no secret is shown.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def read_document(document: Mapping[str, Any], *, kind: type[NotificationFile] = NotificationFile) -> NotificationFile:
    """Read the tables of channels and routes, with their secrets.

    Args:
        document: The tables.
        kind: The type of the document: an `EmptyFile` has no channels, and every other file has at least one.

    Raises:
        UnusableDocumentError: If they cannot be used.
    """
    try:
        return kind.model_validate(document, strict=True)
    except ValidationError as error:
        problems = [spell_problem(each) for each in error.errors(include_url=False)]
    # Pydantic's error contains the input, and so the secrets. Therefore it is not chained.
    raise UnusableDocumentError(problems)


def load_notifications(path: Path, *, variable: Callable[[str], str | None]) -> NotificationFile:
    """Read the file of channels and routes.

    Args:
        path: A TOML file.
        variable: Returns an environment variable, for ``${NAME}`` in texts of the file.

    Raises:
        StartupError: If the file cannot be used, with the place and the condition that must hold. Secrets are not
            shown.
    """
    try:
        document = read_toml(path)
    except UnusableFileError as error:
        raise StartupError(f"RLVITALS_NOTIFICATIONS: {error}") from error
    problems: list[str] = []
    document = _resolve_secrets(document, path, variable, problems)
    if not problems:
        try:
            return read_document(document)
        except UnusableDocumentError as error:
            problems = list(error.problems)
    raise StartupError(f"RLVITALS_NOTIFICATIONS: {path}: {'; '.join(problems[:5])}; see docs/notifications.md")


def _resolve_secrets(
    document: dict[str, Any], path: Path, variable: Callable[[str], str | None], problems: list[str]
) -> dict[str, Any]:
    """Return the document with the values of its secrets: from ``${NAME}``, or from a file beside it."""
    channels = document.get("channels")
    if not isinstance(channels, dict):
        return document
    tables = {
        name: _with_secrets(str(name), table, path, variable, problems) if isinstance(table, dict) else table
        for name, table in channels.items()
    }
    return document | {"channels": tables}


def _with_secrets(
    name: str, given: dict[str, Any], path: Path, variable: Callable[[str], str | None], problems: list[str]
) -> dict[str, Any]:
    table = {"type": "apprise"} | given
    for field in sorted(SECRET_FIELDS):
        place = _place(name, field)
        file = table.pop(f"{field}_file", None)
        if file is not None and field in table:
            problems.append(refusal_of_both(name, field))
        elif isinstance(file, str):
            try:
                table[field] = read_bounded(path.parent / file).decode("utf-8-sig").strip()
            except (UnusableFileError, ValueError) as error:
                reason = str(error) if isinstance(error, UnusableFileError) else "it is no text"
                problems.append(f"{place}_file must be a readable file, got {file!r}: {reason}")
        elif file is not None:
            problems.append(f"{place}_file must be a text, got {printable(file, longest=100)}")
        elif isinstance(table.get(field), str):
            table[field] = _fill_variables(str(table[field]), place, variable, problems)
    return table


def refusal_of_both(name: str, field: str) -> str:
    """Return the problem of a channel that has a secret both in the file and in a file of its own."""
    return f"{_place(name, field)} and {field}_file must not both be set"


def _place(name: str, field: str) -> str:
    return f"channels.{printable(name, longest=40)}.{field}"


def _fill_variables(text: str, place: str, variable: Callable[[str], str | None], problems: list[str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = variable(match[1])
        if not found:
            problems.append(f"{place} names ${{{match[1]}}}, which must be set in the environment")
        return found or ""

    return PLACEHOLDER.sub(value, text)


def spell_problem(error: ErrorDetails) -> str:
    """Describe a problem from pydantic: the place, what must hold, and the input unless it may be secret."""
    location = list(error["loc"])
    if location[:1] == ["channels"]:  # pydantic puts the type of a channel, or a mark of its name, behind the name
        del location[2:3]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{printable(part, longest=60)}" for part in location)
    place = place.removeprefix(".")
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        message = str(context["error"])
        if not place:
            return message
    elif kind == "extra_forbidden":
        return f"{place} is not known; remove it, or correct its name"
    elif kind == "missing":
        return f"{place} must be set"
    elif kind == "string_pattern_mismatch":
        message = "must have 1 to 40 small letters, digits, - and _, and begin with a letter or a digit"
    elif kind in ("literal_error", "enum"):
        message = f"must be {context['expected']}"
    elif kind == "union_tag_invalid":
        place, message = f"{place}.type", f"must be {context['expected_tags']}"
    else:
        message = f"must hold: {error['msg']}"
    given = error["input"]
    # A person may write an address in the place of the table of a channel.
    may_be_secret = SECRET_FIELDS & {str(part) for part in location} or (
        location[:1] == ["channels"] and location[2:] == []
    )
    is_shown = not may_be_secret and isinstance(given, str | int | float | bool)
    return f"{place} {message}" + (f", got {printable(repr(given), longest=100)}" if is_shown else "")
