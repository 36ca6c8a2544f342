"""A file system or a network that only one process sees: Linux's namespaces, by the C library or by `unshare`."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

NEW_MOUNTS: Final = 0x00020000  # CLONE_NEWNS
NEW_USERS: Final = 0x10000000  # CLONE_NEWUSER
PRIVATE: Final = (1 << 18) | (1 << 14)  # MS_PRIVATE | MS_REC


def can_have_own(option: str) -> bool:
    """Tell whether `unshare` works with an option, and the programs are there that tests call in it."""
    tools = ("unshare", "ip", "mount")
    return all(map(shutil.which, tools)) and subprocess.run(["unshare", option, "true"], check=False).returncode == 0


def mount_own_disk(folder: Path, kilobytes: int) -> None:
    """Mount a disk of a few kilobytes on a folder, for this process and its children; it has one thread as yet."""
    user, group = os.getuid(), os.getgid()
    library = ctypes.CDLL(None, use_errno=True)
    _check(library.unshare(NEW_MOUNTS | NEW_USERS))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _check(library.mount(b"none", b"/", None, PRIVATE, None))
    _check(library.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={kilobytes}k".encode()))


def _check(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
