"""Trainers in processes of their own, which tests can kill, and the records in a collector's database."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor_server.store.repositories.log.blocks import block_steps
from tests.faults.trainer_process import Trainer


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
    """Return what `start_collector`'s database holds: (attempt, rank, step) of each record."""

    def stored() -> list[tuple[int, int, int]]:
        with contextlib.closing(sqlite3.connect(tmp_path / "rlvitals.db")) as database:
            blocks = database.execute(
                "select attempt, rank, seq, step, entries from records order by attempt, rank, seq"
            )
            return [
                (attempt, rank, each)
                for attempt, rank, seq, step, entries in blocks
                for each in block_steps(entries, seq=seq, step=step)
            ]

    return stored
