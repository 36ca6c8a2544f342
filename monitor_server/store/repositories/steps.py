"""Complete steps, ranks merged, and the signals of a run."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import BindParameter, Connection, LargeBinary, Select, String, bindparam, delete, func, insert, select

from monitor_server.store.encoding.step_signals import FLOAT, columns, pack, unpack
from monitor_server.store.repositories.removed_attempts import is_kept
from monitor_server.store.repositories.series.compaction import Compaction
from monitor_server.store.statements import Insertion, in_parts
from monitor_server.store.tables import signals, steps

__all__ = ["Step", "StepColumns", "Steps"]

log = logging.getLogger(__name__)

_COLUMNS = (steps.c.step, steps.c.attempt, steps.c.time, steps.c.policy_version, steps.c.data_version, steps.c.packed)

_ADD_SIGNALS = Insertion(signals, columns=["run_id", "position", "name"])
# Built once: building these takes SQLAlchemy longer than SQLite takes to answer them, and each batch or scrape uses
# them.
_SIGNALS = select(signals.c.name).where(signals.c.run_id == bindparam("run")).order_by(signals.c.position)
_KNOWN = select(steps.c.step).where(
    steps.c.run_id == bindparam("run"),
    steps.c.attempt == bindparam("attempt"),
    steps.c.step.in_(bindparam("steps", expanding=True)),
)
_RANGES = (
    select(steps.c.attempt, func.min(steps.c.step), func.max(steps.c.step))
    .where(steps.c.run_id == bindparam("run"), is_kept(steps.c.attempt, bindparam("run")))
    .group_by(steps.c.attempt)
)
_REMOVE = delete(steps).where(
    steps.c.run_id == bindparam("run"),
    steps.c.step == bindparam("of_step"),
    steps.c.attempt == bindparam("of_attempt"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A complete step of one attempt; it has no signals if the stored ones cannot be decoded."""

    step: int
    attempt: int
    time: float
    signals: Mapping[str, float]
    policy_version: int | None = None
    data_version: str | None = None
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class StepColumns:
    """Steps, their times in seconds since the epoch, and the values of each signal, None if it is not observed."""

    steps: list[int]
    times: list[float]
    values: list[list[float | None]]


class Steps:
    """Reads and writes steps. Readers get the newest attempt's value at every step."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def signals(self, run_id: str) -> list[str]:
        """Return the run's signals in the order of their positions."""
        return list(self._connection.execute(_SIGNALS, {"run": run_id}).scalars())

    def add_signals(self, run_id: str, names: Sequence[str], *, start: int) -> None:
        """Assign new signals the positions from ``start`` on."""
        _ADD_SIGNALS.execute(self._connection, [(run_id, start + place, name) for place, name in enumerate(names)])

    def complete_steps(self, run_id: str, attempt: int, numbers: Collection[int]) -> set[int]:
        """Return those of the steps ``numbers`` that are complete."""
        found: set[int] = set()
        for some in in_parts(numbers):
            found.update(self._connection.execute(_KNOWN, {"run": run_id, "attempt": attempt, "steps": some}).scalars())
        return found

    def last(self, run_id: str, attempt: int) -> int | None:
        """Return the highest step of an attempt, or None."""
        query = select(func.max(steps.c.step)).where(steps.c.run_id == run_id, steps.c.attempt == attempt)
        return self._connection.execute(query).scalar()

    def newest(self, run_id: str, attempt: int, *, limit: int) -> list[int]:
        """Return the highest steps of an attempt, in ascending order."""
        here = (steps.c.run_id == run_id) & (steps.c.attempt == attempt)
        query = select(steps.c.step).where(here).order_by(steps.c.step.desc()).limit(limit)
        return sorted(self._connection.execute(query).scalars())

    def count(self, run_id: str, attempt: int, *, above: int, below: int) -> int:
        """Return the number of steps of an attempt between two numbers."""
        query = (
            select(func.count())
            .select_from(steps)
            .where(steps.c.run_id == run_id, steps.c.attempt == attempt, steps.c.step > above, steps.c.step < below)
        )
        return int(self._connection.execute(query).scalar_one())

    def put(self, run_id: str, new: Iterable[Step], *, replace: bool, positions: Mapping[str, int]) -> None:
        """Write steps; ``replace`` if they may exist already. Their compacted values are removed."""
        written = list(new)
        rows = [
            {
                "run_id": run_id,
                "step": step.step,
                "attempt": step.attempt,
                "time": step.time,
                "policy_version": step.policy_version,
                "data_version": step.data_version,
                "packed": pack(step.signals, positions),
            }
            for step in written
        ]
        if not rows:
            return
        if replace:
            gone = [{"run": run_id, "of_step": row["step"], "of_attempt": row["attempt"]} for row in rows]
            self._connection.execute(_REMOVE, gone)
        self._connection.execute(insert(steps), rows)
        Compaction(self._connection).remove_at(run_id, [step.step for step in written])

    def page(self, run_id: str, *, from_step: int, limit: int) -> list[Step]:
        """Return steps in ascending order from ``from_step`` on."""
        return self._read(run_id, _newest(run_id).where(steps.c.step >= from_step).limit(limit))

    def of_attempt(self, run_id: str, attempt: int, *, from_step: int, limit: int) -> list[Step]:
        """Return the steps of one attempt in ascending order, including those that a newer attempt repeats."""
        query = (
            select(*_COLUMNS)
            .where(steps.c.run_id == run_id, steps.c.attempt == attempt, steps.c.step >= from_step)
            .order_by(steps.c.step)
            .limit(limit)
        )
        return self._read(run_id, query)

    def ranges(self, run_id: str) -> dict[int, tuple[int, int]]:
        """Return the lowest and the highest step of each attempt that has some."""
        rows = self._connection.execute(_RANGES, {"run": run_id})
        return {attempt: (first, last) for attempt, first, last in rows}

    def columns(
        self,
        run_id: str,
        attempt: int,
        names: Sequence[str],
        *,
        from_step: int,
        to_step: int,
        limit: int,
        from_end: bool = False,
    ) -> StepColumns:
        """Return some signals of the steps of one attempt, in ascending order; only the requested signals are read.

        There are at most ``limit`` steps: the first ones, or the last ones if they are read ``from_end``.
        """
        places = {name: place for place, name in enumerate(self.signals(run_id)) if name in names}
        # One place of the packed row, which is empty if the row ends before it.
        parts = [
            func.substr(steps.c.packed, places[name] * FLOAT.itemsize + 1, FLOAT.itemsize, type_=LargeBinary)
            for name in names
            if name in places
        ]
        query = (
            select(steps.c.step, steps.c.time, *parts)
            .where(steps.c.run_id == run_id, steps.c.attempt == attempt)
            .where(steps.c.step >= from_step, steps.c.step <= to_step)
            .order_by(steps.c.step.desc() if from_end else steps.c.step)
            .limit(limit)
        )
        rows = self._connection.execute(query).all()
        rows = rows[::-1] if from_end else rows
        read: list[list[float | None]] = []
        column = 2
        for name in names:
            if name not in places:
                read.append([None] * len(rows))
                continue
            # A part that is not whole is of a row that cannot be decoded.
            whole = [row[column] if len(row[column] or b"") == FLOAT.itemsize else b"" for row in rows]
            ((values, observed),) = columns(whole, [0])
            pairs = zip(values.tolist(), observed.tolist(), strict=True)
            read.append([value if is_observed else None for value, is_observed in pairs])
            column += 1
        return StepColumns([row[0] for row in rows], [row[1] for row in rows], read)

    def values_at(self, run_id: str, name: str, numbers: Collection[int]) -> dict[int, float]:
        """Return the values of one signal at some steps, by step, each from the newest attempt that made the step.

        Only the rows of these steps are read, so the cost depends on their number.
        """
        place = self._connection.execute(
            select(signals.c.position).where(signals.c.run_id == run_id, signals.c.name == name)
        ).scalar()
        if place is None:
            return {}
        part = func.substr(steps.c.packed, place * FLOAT.itemsize + 1, FLOAT.itemsize, type_=LargeBinary)
        found: dict[int, float] = {}
        for some in in_parts(numbers):
            query = (
                select(steps.c.step, part)
                .where(steps.c.run_id == run_id, steps.c.step.in_(some), is_kept(steps.c.attempt, run_id))
                .order_by(steps.c.step, steps.c.attempt)
            )
            newest = dict(tuple(row) for row in self._connection.execute(query))
            whole = [packed if packed and len(packed) == FLOAT.itemsize else b"" for packed in newest.values()]
            ((values, observed),) = columns(whole, [0])
            pairs = zip(newest, values.tolist(), observed.tolist(), strict=True)
            found.update((step, value) for step, value, is_observed in pairs if is_observed)
        return found

    def _read(self, run_id: str, query: Select[tuple[int, int, float, int | None, str | None, bytes]]) -> list[Step]:
        names = self.signals(run_id)
        found = []
        for row in self._connection.execute(query):
            signals = _unpack(run_id, row.step, row.packed, names)
            step = Step(
                step=row.step,
                attempt=row.attempt,
                time=row.time,
                policy_version=row.policy_version,
                data_version=row.data_version,
                signals=signals or {},
                is_damaged=signals is None,
            )
            found.append(step)
        return found

    def at(self, run_id: str, step: int) -> Mapping[str, float]:
        """Return the signals at one step; empty if there is no such step."""
        row = self._connection.execute(_AT, {"run": run_id, "of_step": step}).first()
        return {} if row is None else _unpack(run_id, step, row.packed, self.signals(run_id)) or {}


def _unpack(run_id: str, step: int, packed: bytes, names: Sequence[str]) -> dict[str, float] | None:
    """Return the signals of a stored step, or None, with a log line, if its bytes are damaged."""
    try:
        return unpack(packed, names)
    except (ValueError, IndexError) as error:
        log.warning("step %d of run %s cannot be decoded and is shown without signals: %s", step, run_id, error)
        return None


def _newest(run_id: str | BindParameter[str]) -> Select[tuple[int, int, float, int | None, str | None, bytes]]:
    newer = steps.alias()
    attempt = (
        select(func.max(newer.c.attempt))
        .where(newer.c.run_id == run_id, newer.c.step == steps.c.step, is_kept(newer.c.attempt, run_id))
        .scalar_subquery()
    )
    return select(*_COLUMNS).where(steps.c.run_id == run_id, steps.c.attempt == attempt).order_by(steps.c.step)


_AT = _newest(bindparam("run", type_=String)).where(steps.c.step == bindparam("of_step"))
