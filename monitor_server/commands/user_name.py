"""The name that signs the actions of a command's user."""

import getpass
import os

__all__ = ["user_name"]


def user_name() -> str:
    """Return the user's name on this machine, or ``user NUMBER`` if there is none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the second is raised from Python 3.13 on
        return f"user {os.getuid()}"
