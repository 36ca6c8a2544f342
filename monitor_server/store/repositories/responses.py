"""Sampled responses: all of the newest steps, fewer of earlier steps, so that the amount for a run stays bounded."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select

from monitor_server.store.repositories.numbering import number_rows
from monitor_server.store.repositories.removed_attempts import is_kept
from monitor_server.store.repositories.step_ranges import beyond_first
from monitor_server.store.statements import in_parts
from monitor_server.store.tables import alerts, responses
from trainer_hooks import wire

__all__ = ["Responses", "StoredResponse"]

# Around the newest alerts nothing is thinned, because people want to read these responses later.
KEPT_ALERTS = 16
KEPT_BEFORE, KEPT_AFTER = 16, 4
READ_AT_ONCE = 4
BAD_RESPONSE = (msgspec.MsgspecError, ArithmeticError, LookupError, TypeError, ValueError)

log = logging.getLogger(__name__)

_RESPONSES = msgspec.msgpack.Decoder(wire.Response)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """One sampled response with its origin."""

    number: int
    attempt: int
    step: int
    rank: int
    response: wire.Response


class Responses:
    """Reads and writes sampled responses. Readers get those of the newest attempt at every step."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(
        self, run_id: str, *, attempt: int, step: int, rank: int, new: Sequence[wire.Response], max_per_step: int
    ) -> int:
        """Append responses of a step until it has ``max_per_step``; return the number that did not fit."""
        here = (responses.c.run_id == run_id) & (responses.c.step == step) & (responses.c.attempt == attempt)
        held = self._connection.execute(select(func.count()).select_from(responses).where(here)).scalar_one()
        kept = new[: max(0, max_per_step - held)]
        rows = [
            {
                "run_id": run_id,
                "attempt": attempt,
                "step": step,
                "rank": rank,
                "kinds": " ".join(response.kinds),
                "correct": response.correct,
                "body": wire.encode(response),
            }
            for response in kept
        ]
        if rows:
            self._connection.execute(insert(responses), number_rows(self._connection, responses, rows, run_id=run_id))
        return len(new) - len(kept)

    def thin(self, run_id: str, *, newest_step: int, whole_steps: int, limit: int) -> int:
        """Remove at most ``limit`` old responses, and return the number; if it equals ``limit``, there may be more.

        All of the newest ``whole_steps`` that have any are kept, up to the newest of the run. Before them the first of
        every 2ᵏ step numbers is kept, about as many at most. Around alerts all are kept.

        The steps kept of a longer run are among those kept of a shorter one, so thinning can be done at any time.
        """
        old = self._old_steps(run_id, newest_step, whole_steps)
        stride = 1
        while newest_step // stride > whole_steps:
            stride *= 2
        others = beyond_first(old, stride)
        opened = (
            select(alerts.c.opened_step)
            .where(alerts.c.run_id == run_id, alerts.c.severity != "info")
            .order_by(alerts.c.number.desc())
            .limit(KEPT_ALERTS)
        )
        around = [
            responses.c.step.between(step - KEPT_BEFORE, step + KEPT_AFTER)
            for step in set(self._connection.execute(opened).scalars())
        ]
        removed = 0
        for some in in_parts(others):
            found = (
                select(responses.c.number)
                .where(responses.c.run_id == run_id, responses.c.step.in_(some), *(~near for near in around))
                .limit(limit - removed)
                .with_for_update(skip_locked=True)  # another collector removes them, and may wait for the run
            )
            for numbers in in_parts(self._connection.execute(found).scalars().all()):
                here = (responses.c.run_id == run_id) & responses.c.number.in_(numbers)
                removed += self._connection.execute(delete(responses).where(here)).rowcount
            if removed == limit:
                break
        return removed

    def _old_steps(self, run_id: str, newest_step: int, whole_steps: int) -> list[int]:
        """Return the steps before the newest ``whole_steps`` that have responses, in ascending order."""
        query = select(responses.c.step).where(responses.c.run_id == run_id, responses.c.step <= newest_step).distinct()
        first_kept = self._connection.execute(
            query.order_by(responses.c.step.desc()).offset(whole_steps - 1).limit(1)
        ).scalar()
        if first_kept is None:
            return []
        old = query.where(responses.c.step < first_kept).order_by(responses.c.step)
        return list(self._connection.execute(old).scalars())

    def page(
        self,
        run_id: str,
        *,
        limit: int,
        before: int | None = None,
        from_step: int | None = None,
        to_step: int | None = None,
        kind: str | None = None,
        correct: bool | None = None,
        up_to_attempt: int | None = None,
    ) -> Iterator[StoredResponse]:
        """Yield responses, the last stored first, before the response ``before``.

        With ``up_to_attempt`` they are those of the newest attempt up to it, as if no later one had begun.

        A response may be many kilobytes long: each few are read when they are asked for. One that cannot be decoded is
        left out, and the log says so.
        """
        newer = responses.alias()
        at_step = [newer.c.run_id == run_id, newer.c.step == responses.c.step, is_kept(newer.c.attempt, run_id)]
        if up_to_attempt is not None:
            at_step.append(newer.c.attempt <= up_to_attempt)
        newest = select(func.max(newer.c.attempt)).where(*at_step).scalar_subquery()
        query = (
            select(responses)
            .where(responses.c.run_id == run_id, responses.c.attempt == newest)
            .order_by(responses.c.number.desc())
        )
        if from_step is not None:
            query = query.where(responses.c.step >= from_step)
        if to_step is not None:
            query = query.where(responses.c.step <= to_step)
        if kind is not None:
            query = query.where(responses.c.kinds.contains(kind, autoescape=True))
        if correct is not None:
            query = query.where(responses.c.correct == correct)
        query = query.execution_options(yield_per=READ_AT_ONCE)
        while limit:
            rest = query if before is None else query.where(responses.c.number < before)
            read = 0
            missing = limit
            with self._connection.execute(rest.limit(missing)) as found:
                for row in found:
                    read, before = read + 1, row.number
                    stored = _decode(run_id, row)
                    if stored is not None:
                        limit -= 1
                        yield stored
            if read < missing:
                return


def _decode(run_id: str, row: Row[Any]) -> StoredResponse | None:
    """Decode a row, or return None if its bytes are damaged."""
    try:
        response = _RESPONSES.decode(row.body)
        response.check()
    except BAD_RESPONSE as error:
        log.warning("a response of step %d of run %s cannot be decoded and is left out: %s", row.step, run_id, error)
        return None
    return StoredResponse(number=row.number, attempt=row.attempt, step=row.step, rank=row.rank, response=response)
