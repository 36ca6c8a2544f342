"""One rank of the reference trainer, started by torchrun; it fails where one of gloo's threads is left at its end."""

import sys
import time
from contextlib import suppress
from pathlib import Path

from trainer_hooks.reference.__main__ import main


def gloo_threads() -> list[str]:
    """Return the names of gloo's threads in this process."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
            names.append(task.joinpath("comm").read_text().strip())
    return [name for name in names if "gloo" in name]


code = main()
# The kernel lists a thread for a moment longer than it takes to join it.
patience_ends = time.monotonic() + 60
while gloo_threads() and time.monotonic() < patience_ends:
    time.sleep(0.01)
left = gloo_threads()
sys.exit(f"Gloo's threads must have ended, {left} are left: see Ranks.leave." if left else code)
