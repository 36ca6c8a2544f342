"""The name by which the user of a command signs."""

import getpass
import os

__all__ = ["user_name"]


def user_name() -> str:
    """Return the user's name on this machine, or ``user NUMBER`` where it has none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the second from Python 3.13 on
        return f"user {os.getuid()}"
