"""Writes a file as a whole: until its content is complete, the file of that name stays as it was."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_for_writing"]


@contextmanager
def open_for_writing(file: Path) -> Iterator[BinaryIO]:
    """Open a file beside the named one, which it replaces at the end of the block, unless the block fails.

    A pipe or a device, such as ``/dev/stdout``, is written directly.

    Raises:
        OSError: If the file cannot be written.
    """
    if file.exists() and not file.is_file():  # a rename would replace the device by a file
        with file.open("wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(file))  # the target of a symbolic link
    # A name of its own: another command may write to the same file, and the user may have a file that ends like it.
    partial = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        with partial.open("xb") as written:
            if target.exists():
                shutil.copymode(target, partial)
            yield written
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
