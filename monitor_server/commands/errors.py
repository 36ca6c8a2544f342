"""The error of the commands."""

__all__ = ["CommandError"]


class CommandError(Exception):
    """A command cannot do what was asked; the message is all that the user needs, and the exit status is 1."""
