"""Removes records of the log, block by block, a limited number in each transaction."""

from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import Any

from sqlalchemy import Connection, Select, delete, func, select, update

from monitor_server.store.repositories.log.blocks import SPAN, block_steps
from monitor_server.store.repositories.waiting_steps import Waiting
from monitor_server.store.tables import records, steps

__all__ = ["LogRetention"]

_BLOCKS = (
    records.c.position,
    records.c.attempt,
    records.c.record_count,
    records.c.entries,
    records.c.seq,
    records.c.step,
)


class LogRetention:
    """Removes the bodies of old records, and the records of an attempt."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def position_of(self, run_id: str, attempt: int, step: int) -> int:
        """Return a position before which the log has no record of the first step from ``step`` on; 0 if there is none.

        It is the first position of the blocks that may have such a record.
        """
        here = (records.c.run_id == run_id) & (records.c.attempt == attempt) & (records.c.step >= step)
        first_end = self._connection.execute(select(func.min(records.c.step)).where(here)).scalar()
        if first_end is None:
            return 0
        begin = func.min(records.c.position - records.c.record_count + 1)
        query = select(begin).where(here, records.c.step < first_end + SPAN)
        return int(self._connection.execute(query).scalar_one())

    def thin(self, run_id: str, *, after: int, up_to: int, limit: int) -> tuple[int, int, bool]:
        """Remove the bodies of the first records in a part of the log; the part ends at a step that waits for ranks.

        Args:
            run_id: The run.
            after: The position after which the part begins.
            up_to: The position at which it ends.
            limit: The largest number of records, unless one block has more.

        Returns:
            The number of records that lost their bodies, the position up to which all have, and whether there are more.
        """
        blocks = select(*_BLOCKS).where(
            records.c.run_id == run_id, records.c.position > after, records.c.position <= up_to
        )
        found, has_more = self._first(blocks.order_by(records.c.position), limit)
        steps_of = [
            {(block.attempt, step) for step in block_steps(block.entries, seq=block.seq, step=block.step)}
            for block in found
        ]
        waiting = Waiting(self._connection).among(run_id, set().union(*steps_of))
        thinned = [
            block for block, _ in takewhile(lambda each: waiting.isdisjoint(each[1]), zip(found, steps_of, strict=True))
        ]
        if thinned:
            here = (records.c.run_id == run_id) & records.c.position.between(thinned[0].position, thinned[-1].position)
            self._connection.execute(update(records).where(here), {"body": b""})
        number = sum(block.record_count for block in thinned)
        if len(thinned) < len(found):
            first_waiting = found[len(thinned)]
            return number, first_waiting.position - first_waiting.record_count, False
        return number, thinned[-1].position if has_more else up_to, has_more

    def remove(self, run_id: str, *, limit: int) -> int:
        """Remove the first records of a run, and return their number."""
        found, _ = self._first(select(*_BLOCKS).where(records.c.run_id == run_id).order_by(records.c.position), limit)
        return self._delete(run_id, found)

    def remove_attempt(self, run_id: str, attempt: int, *, limit: int) -> int:
        """Remove the first records of an attempt, with their steps, because the key of a step begins with its number.

        Returns:
            The number of removed records.
        """
        of_attempt = (records.c.run_id == run_id) & (records.c.attempt == attempt)
        found, _ = self._first(select(*_BLOCKS).where(of_attempt).order_by(records.c.step), limit)
        if not found:
            return 0
        numbers = {step for block in found for step in block_steps(block.entries, seq=block.seq, step=block.step)}
        here = (steps.c.run_id == run_id) & steps.c.step.in_(numbers) & (steps.c.attempt == attempt)
        self._connection.execute(delete(steps).where(here))
        return self._delete(run_id, found)

    def _delete(self, run_id: str, blocks: Sequence[Any]) -> int:
        positions = [block.position for block in blocks]
        self._connection.execute(delete(records).where(records.c.run_id == run_id, records.c.position.in_(positions)))
        return sum(block.record_count for block in blocks)

    def _first(self, blocks: Select[Any], limit: int) -> tuple[Sequence[Any], bool]:
        """Return the first blocks, at most ``limit`` records and at least one block, and whether there may be more."""
        found = self._connection.execute(blocks.limit(limit)).all()
        totals = accumulate(block.record_count for block in found)
        fitting = found[: max(1, sum(total <= limit for total in totals))]
        return fitting, len(fitting) < len(found) or len(found) == limit
