"""Trainers in processes of their own, which tests can kill, and the records in a collector's database."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.stored_records import stored_records
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
    """Return the records in the database of `start_collector`, as (attempt, rank, step) of each record."""
    return lambda: stored_records(tmp_path / "rlvitals.db")
