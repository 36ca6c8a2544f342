"""The collector's settings for its commands: each unusable value becomes one line."""

import re
from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

from monitor_server.commands.errors import CommandError
from monitor_server.settings import Settings
from monitor_server.text_safety.printable import printable

__all__ = ["database_url", "read_settings", "unusable_settings"]

LONGEST_VALUE: Final = 100
CREDENTIALS: Final = re.compile(r"//.*@", re.DOTALL)  # in an address; settings name files for every other secret


def read_settings(**given: object) -> Settings:
    """Return the settings from the environment; the given options take precedence.

    Raises:
        CommandError: If a value cannot be used.
    """
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        problems = "; ".join(f"{name}: {problem}" for name, problem in unusable_settings(error))
        raise CommandError(f"a setting cannot be used: {problems}; see docs/configuration.md") from error


def unusable_settings(error: ValidationError) -> Iterator[tuple[str, str]]:
    """Yield the variable of each unusable setting, with the condition that must hold and the given value."""
    for item in error.errors():
        given = CREDENTIALS.sub("//***@", str(item["input"]))
        yield (
            f"RLVITALS_{str(item['loc'][0]).upper()}",
            f"{item['msg']}, got {printable(given, longest=LONGEST_VALUE)!r}",
        )


def database_url(given: str | None) -> str:
    """Return the address of the database: the option, otherwise the setting.

    Raises:
        CommandError: If a setting cannot be used.
    """
    return given or read_settings().database_url
