"""The error of the commands."""

from importlib.util import find_spec

__all__ = ["CommandError", "RefusedError", "missing_library", "require_libraries"]


class CommandError(Exception):
    """A command cannot do what was asked; the message is all that the user needs, and the exit status is 1."""


class RefusedError(CommandError):
    """A collector has answered that it does not do what was asked.

    Args:
        message: What the user needs.
        status: HTTP's number.
        retry_after: What the answer says of when to ask again.
    """

    def __init__(self, message: str, status: int, retry_after: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.seconds = min(int(retry_after), 30) if retry_after.isdecimal() else 1


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
