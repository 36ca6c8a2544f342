"""The error of the commands."""

from importlib.util import find_spec

__all__ = ["EXIT_INTERRUPTED", "CommandError", "RequestRefusedError", "missing_library", "require_libraries"]

EXIT_INTERRUPTED = 130  # the status of a process that SIGINT ends


class CommandError(Exception):
    """A command cannot do its task; the message is complete for the user, and the exit status is 1."""


class RequestRefusedError(CommandError):
    """A collector has refused a request.

    Args:
        message: The message for the user.
        status: The HTTP status.
        retry_after: The answer's statement about when to try again.
    """

    def __init__(self, message: str, status: int, retry_after: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.seconds = min(int(retry_after), 30) if retry_after.isdecimal() else 1


def missing_library(command: str, missing: ModuleNotFoundError, *, extras: str = "server,dashboard") -> CommandError:
    """Return the error of a command without a library of an extra; a missing module of ours is raised again."""
    if (missing.name or "").partition(".")[0] in ("monitor_server", "trainer_hooks"):
        raise missing
    return CommandError(
        f"`rlvitals {command}` needs {missing.name}, which is not installed: pip install 'rlvitals[{extras}]'"
    )


def require_libraries(command: str, *libraries: str, extras: str) -> None:
    """Raise `CommandError` if a library is missing that the processes of a command import."""
    for library in libraries:
        if find_spec(library) is None:
            raise missing_library(command, ModuleNotFoundError(name=library), extras=extras)
