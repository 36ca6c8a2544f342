"""Complete steps, ranks merged, and the signals of a run."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select

from monitor_server.store.packing import columns, pack, unpack
from monitor_server.store.repositories.records import MAX_PARAMETERS
from monitor_server.store.tables import signals, steps

__all__ = ["Column", "Step", "Steps"]


# Built once: SQLAlchemy takes longer to build these than SQLite to answer them, and each batch asks them.
_KNOWN = select(steps.c.step).where(
    steps.c.run_id == bindparam("run"),
    steps.c.attempt == bindparam("attempt"),
    steps.c.step.in_(bindparam("steps", expanding=True)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A complete step of one attempt."""

    step: int
    attempt: int
    time: float
    signals: Mapping[str, float]
    policy_version: int | None = None
    data_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A signal over the steps at which it was observed: steps int64 [n]; values, times (Unix seconds) float64 [n]."""

    signal: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]


class Steps:
    """Reads and writes steps. Readers see the newest attempt's value at every step."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def signals(self, run_id: str) -> list[str]:
        """Return the run's signals in the order of their positions."""
        query = select(signals.c.name).where(signals.c.run_id == run_id).order_by(signals.c.position)
        return list(self._connection.execute(query).scalars())

    def add_signals(self, run_id: str, names: Sequence[str], *, start: int) -> None:
        """Assign new signals the positions from ``start`` on."""
        rows = [{"run_id": run_id, "position": start + place, "name": name} for place, name in enumerate(names)]
        self._connection.execute(insert(signals), rows)

    def known(self, run_id: str, attempt: int, numbers: Collection[int]) -> set[int]:
        """Return those of the steps ``numbers`` that are complete."""
        found: set[int] = set()
        ordered = list(numbers)
        for begin in range(0, len(ordered), MAX_PARAMETERS):
            some = ordered[begin : begin + MAX_PARAMETERS]
            found.update(self._connection.execute(_KNOWN, {"run": run_id, "attempt": attempt, "steps": some}).scalars())
        return found

    def last(self, run_id: str, attempt: int) -> int | None:
        """Return the highest step of an attempt, or None."""
        query = select(func.max(steps.c.step)).where(steps.c.run_id == run_id, steps.c.attempt == attempt)
        return self._connection.execute(query).scalar()

    def put(self, run_id: str, new: Iterable[Step], *, replace: bool, positions: Mapping[str, int]) -> None:
        """Write steps; ``replace`` says that they may be there already."""
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
            for step in new
        ]
        for row in rows if replace else ():
            here = (steps.c.run_id == run_id) & (steps.c.step == row["step"]) & (steps.c.attempt == row["attempt"])
            self._connection.execute(delete(steps).where(here))
        if rows:
            self._connection.execute(insert(steps), rows)

    def page(self, run_id: str, *, from_step: int, limit: int) -> list[Step]:
        """Return steps in ascending order from ``from_step`` on."""
        names = self.signals(run_id)
        rows = self._connection.execute(_newest(run_id).where(steps.c.step >= from_step).limit(limit))
        return [
            Step(
                step=row.step,
                attempt=row.attempt,
                time=row.time,
                policy_version=row.policy_version,
                data_version=row.data_version,
                signals=unpack(row.packed, names),
            )
            for row in rows
        ]

    def at(self, run_id: str, step: int) -> Mapping[str, float]:
        """Return the signals at one step; empty where there is none."""
        row = self._connection.execute(_newest(run_id).where(steps.c.step == step)).first()
        return {} if row is None else unpack(row.packed, self.signals(run_id))

    def columns(
        self, run_id: str, names: Sequence[str], *, from_step: int | None = None, to_step: int | None = None
    ) -> list[Column]:
        """Return whole signals, without the steps at which they were not observed; unknown ones are empty."""
        positions = {name: place for place, name in enumerate(self.signals(run_id))}
        wanted = [name for name in names if name in positions]
        query = select(steps.c.step, steps.c.time, steps.c.packed).where(steps.c.run_id == run_id)
        if from_step is not None:
            query = query.where(steps.c.step >= from_step)
        if to_step is not None:
            query = query.where(steps.c.step <= to_step)
        # The driver's own rows: SQLAlchemy's would double the time of a long series.
        rows = self._connection.execute(query.order_by(steps.c.step, steps.c.attempt)).cursor.fetchall()
        numbers = np.fromiter((step for step, _, _ in rows), dtype=np.int64, count=len(rows))
        times = np.fromiter((time for _, time, _ in rows), dtype=np.float64, count=len(rows))
        newest = np.append(numbers[1:] != numbers[:-1], True)[: len(numbers)]
        read = columns([packed for _, _, packed in rows], [positions[name] for name in wanted])
        found = {
            name: Column(
                signal=name,
                steps=numbers[newest & observed],
                values=values[newest & observed],
                times=times[newest & observed],
            )
            for name, (values, observed) in zip(wanted, read, strict=True)
        }
        nothing = np.array([], dtype=np.float64)
        return [
            found.get(name, Column(signal=name, steps=nothing.astype(np.int64), values=nothing, times=nothing))
            for name in names
        ]


def _newest(run_id: str) -> Select[tuple[int, int, float, int | None, str | None, bytes]]:
    newer = steps.alias()
    attempt = (
        select(func.max(newer.c.attempt))
        .where(newer.c.run_id == run_id, newer.c.step == steps.c.step)
        .scalar_subquery()
    )
    return (
        select(
            steps.c.step, steps.c.attempt, steps.c.time, steps.c.policy_version, steps.c.data_version, steps.c.packed
        )
        .where(steps.c.run_id == run_id, steps.c.attempt == attempt)
        .order_by(steps.c.step)
    )
