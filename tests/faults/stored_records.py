"""Reads which records the SQLite file of a collector holds."""

import contextlib
import sqlite3
from pathlib import Path

from monitor_server.store.repositories.log.blocks import block_steps

__all__ = ["stored_records"]


def stored_records(file: Path) -> list[tuple[int, int, int]]:
    """Return attempt, rank and step of each record, in the order of attempts, ranks and sequence numbers."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        blocks = database.execute("select attempt, rank, seq, step, entries from records order by attempt, rank, seq")
        return [
            (attempt, rank, each)
            for attempt, rank, seq, step, entries in blocks
            for each in block_steps(entries, seq=seq, step=step)
        ]
