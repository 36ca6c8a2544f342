"""Trainers and collectors as processes, to be killed; and what a collector's database holds."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
        """Let it do steps; it does them while we go on."""
        self.input.write(f"{steps}\n")
        self.input.flush()

    def logged(self, steps: int) -> list[tuple[int, float]]:
        """Wait for its word on this many steps: the step, and when it was logged."""
        lines = [self.output.readline().split() for _ in range(steps)]
        return [(int(step), float(time)) for step, time in lines]

    def end(self) -> int:
        """Let it end as a script does, and give the records that it counts as lost."""
        self.input.close()
        *_, lost = self.output.read().split()
        assert self.process.wait(60) == 0
        return int(lost)

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start_trainer(tmp_path: Path) -> Iterator[Any]:
    """Start a trainer: `start_trainer(url, first=0, RANK="1")`; its spool is the test's own."""
    trainers: list[Trainer] = []

    def start(url: str, *, first: int = 0, prefix: tuple[str, ...] = (), spool: Path | None = None, **environ: str):
        trainers.append(Trainer(url, spool or tmp_path / "spool", first=first, prefix=prefix, **environ))
        return trainers[-1]

    yield start
    for trainer in trainers:
        trainer.kill()
        trainer.output.close()
        with contextlib.suppress(BrokenPipeError):
            trainer.input.close()


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    """Give what `start_collector`'s database holds: (attempt, rank, step) of each record."""

    def stored() -> list[tuple[int, int, int]]:
        with contextlib.closing(sqlite3.connect(tmp_path / "rlvitals.db")) as database:
            return database.execute("select attempt, rank, step from records order by attempt, rank, seq").fetchall()

    return stored
