"""Runs and their attempts."""

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    bindparam,
    case,
    func,
    insert,
    select,
    update,
)

from monitor_server.settings import Deadlines
from monitor_server.store.tables import alerts, attempts, runs

__all__ = ["SPARKLINE_SIGNAL", "Recent", "Run", "Runs"]

RECENT_STEPS = 64
SPARKLINE_SIGNAL = "reward/mean"  # whose newest values a list of runs shows


# Built once: SQLAlchemy takes longer to build these than SQLite to answer them, and each batch asks them.
_FIND = select(runs).where(runs.c.id == bindparam("run"))
_SAVE = update(runs).where(runs.c.id == bindparam("run"))
_ATTEMPTS = (
    select(attempts.c.attempt, attempts.c.world_size)
    .where(attempts.c.run_id == bindparam("run"))
    .order_by(attempts.c.attempt)
)
_WORLD_SIZE = select(attempts.c.world_size).where(
    attempts.c.run_id == bindparam("run"), attempts.c.attempt == bindparam("attempt")
)


class Recent(msgspec.Struct):
    """Times and rewards of the newest steps, for the step time and the sparkline."""

    times: list[float] = []
    steps: list[int] = []
    rewards: list[float] = []

    def add(self, *, step: int, time: float, reward: float | None) -> None:
        """Append a step and forget the oldest."""
        self.steps = [*self.steps[1 - RECENT_STEPS :], step]
        self.times = [*self.times[1 - RECENT_STEPS :], time]
        if reward is not None:
            self.rewards = [*self.rewards[1 - RECENT_STEPS :], reward]

    def step_seconds(self) -> float | None:
        """Give the median time of a step, or None before two steps of one attempt were seen."""
        points = list(zip(self.steps, self.times, strict=True))
        taken = sorted(
            (later - sooner) / (after - before)
            for (before, sooner), (after, later) in pairwise(points)
            if after > before and later > sooner
        )
        return taken[len(taken) // 2] if taken else None


@dataclass(slots=True, kw_only=True)
class Run:
    """A run as the pipeline works on it; ``save`` writes it back."""

    id: str
    project: str
    name: str
    source: str
    capability: str
    world_size: int
    attempt: int
    started_at: float
    last_seen: float
    last_step_at: float
    stall_seconds: float
    config: bytes | None = None
    phase: str = "unknown"
    ended: str | None = None
    given_up_at: float | None = None
    announced: str = ""
    last_step: int | None = None
    last_attempt: int = -1
    step_seconds: float | None = None
    recent: Recent = field(default_factory=Recent)


class Runs:
    """Reads and writes runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, run_id: str) -> Run | None:
        """Give the run to work on, or None."""
        row = self._connection.execute(_FIND, {"run": run_id}).mappings().one_or_none()
        if row is None:
            return None
        fields = _fields(row)
        del fields["number"]
        recent = msgspec.msgpack.decode(fields.pop("recent"), type=Recent)
        return Run(**fields, recent=recent)

    def add(self, run: Run) -> None:
        """Write a new run."""
        self._connection.execute(insert(runs), _values(run))

    def save(self, run: Run) -> None:
        """Write a run back."""
        self._connection.execute(_SAVE, _values(run) | {"run": run.id})

    def enter_attempt(self, run_id: str, attempt: int, *, world_size: int, now: float) -> int:
        """Note an attempt and give its world size: the largest that any of its ranks has told."""
        known = self._connection.execute(_WORLD_SIZE, {"run": run_id, "attempt": attempt}).scalar()
        if known is None:
            self._connection.execute(
                insert(attempts), {"run_id": run_id, "attempt": attempt, "world_size": world_size, "first_seen": now}
            )
        elif known < world_size:
            here = (attempts.c.run_id == run_id) & (attempts.c.attempt == attempt)
            self._connection.execute(update(attempts).where(here), {"world_size": world_size})
        return max(known or 0, world_size)

    def attempts(self, run_id: str) -> dict[int, tuple[int, int]]:
        """Give each attempt's ordinal, from 1, and world size."""
        rows = self._connection.execute(_ATTEMPTS, {"run": run_id})
        return {attempt: (ordinal, world_size) for ordinal, (attempt, world_size) in enumerate(rows, start=1)}

    def view(self, run_id: str, *, now: float, deadlines: Deadlines) -> dict[str, Any] | None:
        """Give the run as readers see it, or None."""
        query = _view(now, deadlines).where(runs.c.id == run_id)
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _fields(row)

    def page(
        self,
        *,
        now: float,
        deadlines: Deadlines,
        limit: int,
        before: int | None = None,
        project: str | None = None,
        status: str | None = None,
    ) -> list[dict[str, Any]]:
        """Give runs as readers see them, the newest first, before the one numbered ``before``."""
        query = _view(now, deadlines).order_by(runs.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(runs.c.number < before)
        if project is not None:
            query = query.where(runs.c.project == project)
        if status is not None:
            query = query.where(_status(now, deadlines) == status)
        return [_fields(row) for row in self._connection.execute(query).mappings()]

    def exists(self, run_id: str) -> bool:
        """Whether a run has this id."""
        return self._connection.execute(select(runs.c.id).where(runs.c.id == run_id)).first() is not None

    def live(self, *, now: float, deadlines: Deadlines, limit: int) -> list[dict[str, Any]]:
        """Give the runs that have not ended, the last heard first."""
        query = _view(now, deadlines).where(_is_live(now, deadlines)).order_by(runs.c.last_seen.desc()).limit(limit)
        return [_fields(row) for row in self._connection.execute(query).mappings()]

    def status(self, run_id: str, *, now: float, deadlines: Deadlines) -> str:
        """Give the status of a run that exists."""
        return self._connection.execute(select(_status(now, deadlines)).where(runs.c.id == run_id)).scalar_one()

    def changed(self, *, now: float, deadlines: Deadlines) -> list[str]:
        """Give the runs whose status is not the one last announced."""
        query = select(runs.c.id).where(_status(now, deadlines) != runs.c.announced)
        return list(self._connection.execute(query).scalars())


def _fields(row: RowMapping) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def _values(run: Run) -> dict[str, Any]:
    return asdict(run) | {"recent": msgspec.msgpack.encode(run.recent)}


def _status(now: float, deadlines: Deadlines) -> ColumnElement[str]:
    """The status of a run at ``now``: said by the trainer or a person, or told by the clock.

    What a person gave up, or nobody heard of for long, is stopped until its trainer is heard again.
    """
    is_lost = now - runs.c.last_seen > deadlines.lost_factor * runs.c.stall_seconds
    return case(
        (runs.c.ended.is_not(None), runs.c.ended),
        (runs.c.given_up_at >= runs.c.last_seen, "stopped"),
        (and_(is_lost, now - runs.c.last_seen > deadlines.expiry_seconds), "stopped"),
        (is_lost, "lost"),
        (now - runs.c.last_step_at > runs.c.stall_seconds, "stalled"),
        else_="running",
    )


def _is_live(now: float, deadlines: Deadlines) -> ColumnElement[bool]:
    return _status(now, deadlines).not_in(("finished", "stopped"))


def _view(now: float, deadlines: Deadlines) -> Select[Any]:
    firing = select(func.count()).where(alerts.c.run_id == runs.c.id, alerts.c.state == "firing").scalar_subquery()
    ordinal = (
        select(func.count())
        .where(attempts.c.run_id == runs.c.id, attempts.c.attempt <= runs.c.attempt)
        .scalar_subquery()
    )
    return select(runs, _status(now, deadlines).label("status"), firing.label("firing"), ordinal.label("ordinal"))
