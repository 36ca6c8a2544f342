"""Checks the text of a file of channels and routes before it is put into place, without the collector's secrets."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from monitor_server.alerts.kinds import is_kind, refusal_of_kind
from monitor_server.configuration_files.reading import parse_toml
from monitor_server.notifications.configuration.loading import PLACEHOLDER, refusal_of_both, spell_problem
from monitor_server.notifications.configuration.tables import NotificationFile, WebhookChannel
from monitor_server.text_safety.field_constraints import find_unclean
from monitor_server.text_safety.printable import printable

__all__ = ["CheckedText", "check_text", "find_useless"]

# Placeholders for an address or a secret that the environment or a file of the collector holds.
STAND_INS: Final = {"url": "https://example.org/", "secret": "0123456789abcdef"}

# The time to read a dotted key grows with the square of its parts, and a key cannot be longer than its line.
LONGEST_LINE: Final = 1_000
MOST_PROBLEMS: Final = 50


@dataclass(frozen=True, slots=True)
class CheckedText:
    """The result of a check: the problems to correct, or the number of channels and routes.

    Args:
        problems: Each with its place and the condition that must hold, at most 51; none if the text can be used.
        channels: The number of channels.
        routes: The number of routes.
        variables: Names of variables that must be set in the collector's environment; they were not read.
        files: Files of secrets that the collector must be able to read; they were not read.
    """

    problems: tuple[str, ...] = ()
    channels: int = 0
    routes: int = 0
    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def check_text(text: str) -> CheckedText:
    """Check a text as the collector does at its start, without reading its environment or a file."""
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > LONGEST_LINE:
            return CheckedText(
                (f"line {number} must have at most {LONGEST_LINE:,} characters to be checked, got {len(line):,}",)
            )
    try:
        document = parse_toml(text)
    except ValueError as error:
        return CheckedText((f"the text must be TOML: {printable(error, longest=300)}",))
    files: list[str] = []
    named: list[str] = []
    twice: list[str] = []
    channels = document.get("channels")
    if isinstance(channels, dict):
        filled = {
            name: _with_stand_ins(str(name), table, files, named, twice) if isinstance(table, dict) else table
            for name, table in channels.items()
        }
        document = document | {"channels": filled}
    variables = tuple(dict.fromkeys(named))
    try:
        file = NotificationFile.model_validate(document, strict=True)
    except ValidationError as error:
        found = [*twice, *(spell_problem(each) for each in error.errors(include_url=False))]
        problems = tuple(found[:MOST_PROBLEMS])
        problems += (f"and {len(found) - MOST_PROBLEMS:,} more",) if len(found) > MOST_PROBLEMS else ()
        return CheckedText(problems, variables=variables, files=tuple(files))
    problems = tuple([*twice, *find_useless(file)][:MOST_PROBLEMS])
    return CheckedText(problems, len(file.channels), len(file.routes), variables, tuple(files))


def find_useless(file: NotificationFile) -> list[str]:
    """Return a problem for each part of the channels and routes with which nobody can be notified.

    These are hosts that no name server can know, kinds and projects that no alert can have, and projects that only the
    environment could name.

    This check applies to documents that a person writes, and not to saved ones: a collector of another version may have
    detectors that this version lacks.
    """
    problems = []
    for name, channel in file.channels.items():
        try:
            if isinstance(channel, WebhookChannel):
                (urlsplit(channel.url.get_secret_value()).hostname or "").encode("idna")
        except ValueError:
            problems.append(
                f"channels.{name}.url must have a host whose parts have 1 to 63 characters (it is not shown)"
            )
    for number, route in enumerate(file.routes):
        for place, kind in enumerate(route.kinds):
            if not is_kind(kind):
                problems.append(f"routes[{number}].kinds[{place}] {refusal_of_kind(kind)}")
        for place, project in enumerate(route.projects):
            if problem := find_unclean(project):
                problems.append(f"routes[{number}].projects[{place}] {problem}")
            elif variable := PLACEHOLDER.search(project):
                problems.append(
                    f"routes[{number}].projects[{place}] must name no variable, got {variable[0]}: only the addresses "
                    "and secrets of channels are filled from the environment; write the name itself"
                )
    return problems


def _with_stand_ins(
    name: str, given: dict[str, Any], files: list[str], variables: list[str], problems: list[str]
) -> dict[str, Any]:
    table = {"type": "apprise"} | given
    for field, stand_in in STAND_INS.items():
        file = table.get(f"{field}_file")
        if file is not None and field in table:
            problems.append(refusal_of_both(name, field))
            del table[f"{field}_file"]
            table[field] = stand_in
        elif isinstance(file, str):
            files.append(printable(file, longest=100))
            del table[f"{field}_file"]
            table[field] = stand_in
        elif isinstance(table.get(field), str):
            held = str(table[field])
            variables += PLACEHOLDER.findall(held)
            table[field] = stand_in if PLACEHOLDER.fullmatch(held) else PLACEHOLDER.sub("x" * 16, held)
    return table
