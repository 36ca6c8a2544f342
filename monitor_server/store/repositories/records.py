"""The durable log of records as the ranks sent them, and the steps that wait for more ranks."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, select

from monitor_server.store.tables import records, waiting

__all__ = ["Records", "StoredRecord", "Waiting"]


# Built once: SQLAlchemy takes longer to build these than SQLite to answer them, and each batch asks them.
_SEEN = select(records.c.seq).where(
    records.c.run_id == bindparam("run"),
    records.c.attempt == bindparam("attempt"),
    records.c.rank == bindparam("rank"),
    records.c.seq.in_(bindparam("seqs", expanding=True)),
)
_OF_STEPS = (
    select(records.c.rank, records.c.seq, records.c.step, records.c.body)
    .where(
        records.c.run_id == bindparam("run"),
        records.c.attempt == bindparam("attempt"),
        records.c.step.in_(bindparam("steps", expanding=True)),
    )
    .order_by(records.c.rank.desc(), records.c.seq)
)
_OF_RUN = (
    select(waiting.c.attempt, waiting.c.step, waiting.c.first_seen)
    .where(waiting.c.run_id == bindparam("run"))
    .order_by(waiting.c.attempt, waiting.c.step)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One record of one rank, its body in msgpack."""

    rank: int
    seq: int
    step: int
    body: bytes


class Records:
    """Reads and appends records."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def seen(self, run_id: str, attempt: int, rank: int, seqs: Collection[int]) -> set[int]:
        """Give those of ``seqs`` that are stored already."""
        asked = {"run": run_id, "attempt": attempt, "rank": rank, "seqs": list(seqs)}
        return set(self._connection.execute(_SEEN, asked).scalars())

    def add(self, run_id: str, attempt: int, new: Iterable[StoredRecord]) -> None:
        """Append records, none of which is stored."""
        rows = [
            {"run_id": run_id, "attempt": attempt, "rank": r.rank, "seq": r.seq, "step": r.step, "body": r.body}
            for r in new
        ]
        if rows:
            self._connection.execute(insert(records), rows)

    def of_steps(self, run_id: str, attempt: int, steps: Collection[int]) -> dict[int, list[StoredRecord]]:
        """Give the records of some steps of an attempt, in the order in which `wire.merge` wants them."""
        if not steps:
            return {}
        asked = {"run": run_id, "attempt": attempt, "steps": list(steps)}
        found: defaultdict[int, list[StoredRecord]] = defaultdict(list)
        for rank, seq, step, body in self._connection.execute(_OF_STEPS, asked):
            found[step].append(StoredRecord(rank=rank, seq=seq, step=step, body=body))
        return found


class Waiting:
    """Steps of which not every rank has reported."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def change(
        self, run_id: str, *, add: Iterable[tuple[int, int]], remove: Iterable[tuple[int, int]], now: float
    ) -> None:
        """Note steps seen for the first time, and forget steps that are complete; both by attempt and step."""
        rows = [{"run_id": run_id, "attempt": attempt, "step": step, "first_seen": now} for attempt, step in add]
        if rows:
            self._connection.execute(insert(waiting), rows)
        for attempt, step in remove:
            here = (waiting.c.run_id == run_id) & (waiting.c.attempt == attempt) & (waiting.c.step == step)
            self._connection.execute(delete(waiting).where(here))

    def of_run(self, run_id: str) -> Sequence[tuple[int, int, float]]:
        """Give attempt, step and when it was first seen, in the order in which detection takes them."""
        rows = self._connection.execute(_OF_RUN, {"run": run_id})
        return [(attempt, step, first_seen) for attempt, step, first_seen in rows]

    def overdue(self, *, before: float) -> list[str]:
        """Give the runs that have a step first seen before a time."""
        query = select(waiting.c.run_id).where(waiting.c.first_seen <= before).distinct()
        return list(self._connection.execute(query).scalars())
