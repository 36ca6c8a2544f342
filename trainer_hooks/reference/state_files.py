"""Files of tensors and plain values that are written as a whole or not at all."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

__all__ = ["write_whole"]


def write_whole(state: dict[str, Any], path: Path, *, is_shared: bool = False) -> None:
    """Write tensors and plain values to a file, atomically.

    Args:
        state: What `torch.load` returns later.
        path: The file; its folder exists.
        is_shared: Whether other processes, as the ranks of a launch, may write the same file at the same time.

    Raises:
        OSError: If it cannot be written, as on a full disk; an incomplete file is removed.
    """
    part = path.with_name(f"{path.name}.{uuid4().hex}.part" if is_shared else f"{path.name}.part")
    try:
        torch.save(state, part)
        part.replace(path)
    except (OSError, RuntimeError) as error:  # torch raises RuntimeError on a full disk
        part.unlink(missing_ok=True)
        raise OSError(f"{path} cannot be written: {error}") from error
