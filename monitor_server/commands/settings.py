"""The collector's settings as its commands read them: what cannot be used is one line."""

from pydantic import ValidationError

from monitor_server.commands.errors import CommandError
from monitor_server.settings import Settings

__all__ = ["database_url", "read_settings"]


def read_settings(**given: object) -> Settings:
    """Return the settings of the environment; options that are given come before it.

    Raises:
        CommandError: If a value cannot be used.
    """
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        problems = "; ".join(f"RLVITALS_{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors())
        raise CommandError(f"a setting cannot be used: {problems}; see docs/configuration.md") from error


def database_url(given: str | None) -> str:
    """Return the address of the database: the option, else that of the settings.

    Raises:
        CommandError: If a setting cannot be used.
    """
    return given or read_settings().database_url
