"""Rows of steps in a range, each from the newest attempt that made the step."""

import logging
from collections.abc import Iterator, Sequence
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

ROWS_READ_AT_ONCE = 1_000
NO_LIMIT = 2**31 - 1

_ROWS = (
    select(steps.c.step, steps.c.time, steps.c.packed)
    .where(
        steps.c.run_id == bindparam("run"),
        steps.c.step >= bindparam("first"),
        steps.c.step <= bindparam("last"),
        is_kept(steps.c.attempt, bindparam("run")),
    )
    .order_by(steps.c.step, steps.c.attempt)
    .limit(bindparam("limit"))
)


@dataclass(frozen=True, slots=True)
class StepRows:
    """Steps int64 [n], ascending; times (Unix seconds) float64 [n]; and the packed signals of each step."""

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    packed: list[bytes]


def read_step_rows(connection: Connection, run_id: str, first: int, last: int) -> Iterator[StepRows]:
    """Yield the steps from ``first`` to ``last``, both included, in parts that take little memory.

    A row that cannot be decoded is left out.
    """
    is_last = False
    while not is_last:
        asked = {"run": run_id, "first": first, "last": last, "limit": ROWS_READ_AT_ONCE}
        rows = fetch_tuples(connection, _ROWS, asked)
        is_last = len(rows) < ROWS_READ_AT_ONCE
        if not is_last:
            # Newer attempts of the last step may be missing here.
            following = rows[-1][0]
            rows = [row for row in rows if row[0] < following]
            if not rows:
                rows = fetch_tuples(connection, _ROWS, asked | {"last": following, "limit": NO_LIMIT})
                following += 1
            first = following
        yield _newest_of_steps(run_id, rows)


def _newest_of_steps(run_id: str, rows: Sequence[tuple[int, float, bytes]]) -> StepRows:
    """Return the newest of the rows of each step; rows are in the order of steps and attempts."""
    whole = [row for row in rows if len(row[2]) % FLOAT.itemsize == 0]
    if len(whole) < len(rows):
        damaged = len(rows) - len(whole)
        log.warning("%d steps of run %s cannot be decoded and are left out of its series", damaged, run_id)
    numbers = np.fromiter((row[0] for row in whole), dtype=np.int64, count=len(whole))
    times = np.fromiter((row[1] for row in whole), dtype=np.float64, count=len(whole))
    newest = np.append(numbers[1:] != numbers[:-1], True)[: len(numbers)]
    packed = [row[2] for row, is_newest in zip(whole, newest.tolist(), strict=True) if is_newest]
    return StepRows(numbers[newest], times[newest], packed)
