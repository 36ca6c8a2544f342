"""The error of the commands."""

from importlib.util import find_spec

__all__ = ["CommandError", "missing_library", "require_libraries"]


class CommandError(Exception):
    """A command cannot do what was asked; the message is all that the user needs, and the exit status is 1."""


def missing_library(command: str, missing: ModuleNotFoundError, *, extras: str = "server,dashboard") -> CommandError:
    """Return the error of a command that needs a library of an extra; a missing module of ours is raised again."""
    if (missing.name or "").partition(".")[0] in ("monitor_server", "trainer_hooks"):
        raise missing
    return CommandError(
        f"`rlvitals {command}` needs {missing.name}, which is not installed: pip install 'rlvitals[{extras}]'"
    )


def require_libraries(command: str, *libraries: str, extras: str) -> None:
    """Raise `CommandError` if a command that starts other processes lacks a library that these import."""
    for library in libraries:
        if find_spec(library) is None:
            raise missing_library(command, ModuleNotFoundError(name=library), extras=extras)
