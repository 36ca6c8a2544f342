"""A trainer in its own process, which a test can kill."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Trainer:
    """A process of `tests.faults.trainer`."""

    def __init__(self, url: str, spool: Path, *, first: int, prefix: tuple[str, ...], **environ: str) -> None:
        settings = {"RLVITALS_URL": url, "RLVITALS_RUN": "r", "RLVITALS_SPOOL_DIR": str(spool)}
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.faults.trainer", str(first)],
            env=os.environ | settings | environ,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self.output, self.input = self.process.stdout, self.process.stdin
        assert self.output.readline() == "ready\n"

    def grant(self, steps: int) -> None:
        """Let the trainer take steps, without waiting for them."""
        self.input.write(f"{steps}\n")
        self.input.flush()

    def logged(self, steps: int) -> list[tuple[int, float]]:
        """Wait until it has reported this many steps, and return each with the time at which it was logged."""
        lines = [self.output.readline().split() for _ in range(steps)]
        return [(int(step), float(time)) for step, time in lines]

    def end(self) -> int:
        """Let it end as a script does, and give the records that it counts as lost."""
        self.input.close()
        *_, lost = self.output.read().split()
        assert self.process.wait(60) == 0
        return int(lost)

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait for its end."""
        self.process.kill()
        self.process.wait()
