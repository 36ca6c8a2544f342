"""Writes a file as a whole: until its content is complete, the file of that name stays as it was."""

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["open_for_writing"]

# No other file can take the place of this one: it is mounted, or its folder or the file itself is another user's.
IRREPLACEABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})


@contextmanager
def open_for_writing(file: Path) -> Iterator[BinaryIO]:
    """Open a file beside the named one, which it replaces at the end of the block, unless the block fails.

    The new file has the owner and the mode of the old one. Where this cannot be, the old one is written directly, as is
    a pipe or a device such as ``/dev/stdout``.

    Raises:
        OSError: If the file cannot be written.
    """
    target = Path(os.path.realpath(file))  # the target of a symbolic link
    written = _open_beside(file, target)
    if written is None:
        with file.open("wb") as stream:
            yield stream
        return
    partial = Path(written.name)
    try:
        with written:
            yield written
        try:
            partial.replace(target)
        except OSError as error:
            if error.errno not in IRREPLACEABLE or not target.is_file():
                raise
            shutil.copyfile(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _open_beside(file: Path, target: Path) -> BinaryIO | None:
    """Open a new file with the owner and the mode of the target; return None if it could not replace the target."""
    if file.exists() and not file.is_file():  # a rename would replace the device by a file
        return None
    # A name of its own: another command may write to the same file.
    partial = target.with_name(f"{uuid.uuid4().hex}.partial")
    try:
        with ExitStack() as closing:
            written = closing.enter_context(partial.open("xb"))
            if target.exists():
                status = target.stat()
                os.chown(partial, status.st_uid, status.st_gid)
                shutil.copymode(target, partial)
            closing.pop_all()
    except OSError as error:
        partial.unlink(missing_ok=True)
        if error.errno in IRREPLACEABLE and target.exists():
            return None
        error.filename = str(file)  # the one that the user knows
        raise
    return written
