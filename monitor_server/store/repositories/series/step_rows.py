"""Rows of steps in a range, each from the newest attempt that made the step."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, select

from monitor_server.store.encoding.step_signals import FLOAT
from monitor_server.store.repositories.removed_attempts import is_kept
from monitor_server.store.statements import fetch_tuples
from monitor_server.store.tables import steps

__all__ = ["StepRows", "read_step_rows"]

log = logging.getLogger(__name__)

_ROWS = (
    select(steps.c.step, steps.c.time, steps.c.packed)
    .where(
        steps.c.run_id == bindparam("run"),
        steps.c.step >= bindparam("first"),
        steps.c.step <= bindparam("last"),
        is_kept(steps.c.attempt, bindparam("run")),
    )
    .order_by(steps.c.step, steps.c.attempt)
)


@dataclass(frozen=True, slots=True)
class StepRows:
    """Steps int64 [n], ascending; times (Unix seconds) float64 [n]; and the packed signals of each step."""

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    packed: list[bytes]


def read_step_rows(connection: Connection, run_id: str, ranges: Sequence[tuple[int, int]]) -> StepRows:
    """Read the steps of some ascending ranges, both ends included; a row that cannot be decoded is left out."""
    rows: list[tuple[int, float, bytes]] = []
    damaged = 0
    for first, last in ranges:  # one query for each range: with ranges joined by OR, SQLite would read the whole run
        fetched = fetch_tuples(connection, _ROWS, {"run": run_id, "first": first, "last": last})
        whole = [row for row in fetched if len(row[2]) % FLOAT.itemsize == 0]
        damaged += len(fetched) - len(whole)
        rows += whole
    if damaged:
        log.warning("%d steps of run %s cannot be decoded and are left out of its series", damaged, run_id)
    numbers = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
    times = np.fromiter((row[1] for row in rows), dtype=np.float64, count=len(rows))
    newest = np.append(numbers[1:] != numbers[:-1], True)[: len(numbers)]
    packed = [row[2] for row, is_newest in zip(rows, newest.tolist(), strict=True) if is_newest]
    return StepRows(numbers[newest], times[newest], packed)
