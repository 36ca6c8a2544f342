"""The error of the commands."""

__all__ = ["CommandError", "missing_library"]


class CommandError(Exception):
    """A command cannot do what was asked; the message is all that the user needs, and the exit status is 1."""


def missing_library(command: str, missing: ModuleNotFoundError) -> CommandError:
    """Return the error of a command that needs a library of an extra; a missing module of ours is raised again."""
    if (missing.name or "").partition(".")[0] in ("monitor_server", "trainer_hooks"):
        raise missing
    return CommandError(
        f"`rlvitals {command}` needs {missing.name}, which is not installed: pip install 'rlvitals[server,dashboard]'"
    )
