"""Runs and their attempts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from sqlalchemy import Connection, Float, RowMapping, Select, bindparam, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from monitor_server.errors import DeletionUnderWay
from monitor_server.settings import Deadlines
from monitor_server.store.repositories.records import StoredRecord
from monitor_server.store.repositories.removed_attempts import REMOVED
from monitor_server.store.repositories.run_status import is_live_column, status_column
from monitor_server.store.statements import Statement
from monitor_server.store.tables import alerts, attempts, phases, records, runs, waiting

__all__ = ["SPARKLINE_SIGNAL", "AttemptSpan", "Extension", "Recent", "Run", "Runs", "read_recent"]

RECENT_STEPS = 64
SPARKLINE_SIGNAL = "reward/mean"  # whose newest values a list of runs shows


# Built once: SQLAlchemy takes longer to build these than SQLite to answer them, and each batch or tick executes them.
_LABELS = ("title", "tags", "notes", "archived_at")
_OF_OTHERS = ("number", "config", "compacted_to", "deleted_at", "records_thinned_to", "steps_thinned_to", *_LABELS)
_WORKED_ON = [column for column in runs.c if column.name not in _OF_OTHERS]
_FIND = select(*_WORKED_ON).where(runs.c.id == bindparam("run"), runs.c.deleted_at.is_(None))
_LOCK = _FIND.with_for_update()
_SAVE = update(runs).where(runs.c.id == bindparam("run"))
_SAVE_REVISION = _SAVE.where(runs.c.revision == bindparam("seen"), runs.c.deleted_at.is_(None))
_EXTEND_LOG = Statement(
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.log_end == bindparam("begin"), runs.c.deleted_at.is_(None))
    .values(log_end=bindparam("end"), last_seen=bindparam("now"))
)
# PostgreSQL: all runs of a commit in one exchange with the server. The rows are locked in the order of their ids, so
# that two collectors never wait for each other's runs. A row that another collector has changed meanwhile is compared
# as it is now.
_EXTEND_LOGS = """
WITH given AS (
  SELECT * FROM
  unnest(%b::varchar[], %b::bigint[], %b::bigint[], %b::double precision[]) AS g(run, log_begin, log_end, at)
), locked AS (
  SELECT id FROM runs WHERE id IN (SELECT run FROM given) ORDER BY id COLLATE "C" FOR NO KEY UPDATE
)
UPDATE runs SET log_end = given.log_end, last_seen = given.at
FROM given JOIN locked ON locked.id = given.run
WHERE runs.id = given.run AND runs.log_end = given.log_begin AND runs.deleted_at IS NULL
"""
_ATTEMPTS = (
    select(attempts.c.attempt, attempts.c.world_size)
    .where(attempts.c.run_id == bindparam("run"), attempts.c.world_size != REMOVED)
    .order_by(attempts.c.attempt)
)
_OF_ATTEMPT = (records.c.run_id == attempts.c.run_id) & (records.c.attempt == attempts.c.attempt)
_SPANS = (
    select(
        attempts.c.first_seen,
        attempts.c.has_config,
        attempts.c.config_change,
        select(func.min(records.c.step)).where(_OF_ATTEMPT).scalar_subquery().label("first_step"),
        select(func.max(records.c.step)).where(_OF_ATTEMPT).scalar_subquery().label("last_step"),
    )
    .where(attempts.c.run_id == bindparam("run"), attempts.c.world_size != REMOVED)
    .order_by(attempts.c.attempt)
)
_ATTEMPT = select(attempts.c.world_size, attempts.c.has_config).where(
    attempts.c.run_id == bindparam("run"), attempts.c.attempt == bindparam("attempt")
)
_BEGUN = select(attempts.c.position, attempts.c.attempt).where(
    attempts.c.run_id == bindparam("run"),
    attempts.c.position > bindparam("after"),
    attempts.c.world_size != REMOVED,
)
_BEHIND = select(runs.c.id).where(
    runs.c.log_end > runs.c.position, runs.c.quarantined_at.is_(None), runs.c.deleted_at.is_(None)
)
_QUARANTINED = select(runs.c.id).where(runs.c.quarantined_at.is_not(None), runs.c.deleted_at.is_(None))
_QUARANTINED_BEFORE = _QUARANTINED.where(runs.c.quarantined_at < bindparam("before"))

_INGEST_COLUMNS = (
    "source",
    "capability",
    "world_size",
    "attempt",
    "ended",
    "given_up_at",
    "last_seen",
    "last_step_at",
    "log_end",
    "signal_count",
)
_PROJECTION_COLUMNS = (
    "phase",
    "announced",
    "last_step",
    "last_attempt",
    "last_step_at",
    "step_seconds",
    "stall_seconds",
    "position",
    "projected_attempt",
    "revision",
    "owner",
    "owned_until",
    "quarantined_at",
    "quarantine_reason",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpan:
    """The steps that an attempt has recorded, None where it has none.

    ``config_change`` says where its configuration differs from the one before, empty where it does not; None where
    there was none before.
    """

    first_seen: float
    has_config: bool
    config_change: str | None
    first_step: int | None
    last_step: int | None


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
        """Return the median time of a step, or None before two steps of one attempt were seen."""
        points = list(zip(self.steps, self.times, strict=True))
        seconds = sorted(
            (later - sooner) / (after - before)
            for (before, sooner), (after, later) in pairwise(points)
            if after > before and later > sooner
        )
        return seconds[len(seconds) // 2] if seconds else None


_RECENT = msgspec.msgpack.Decoder(Recent)


def read_recent(stored: bytes) -> Recent:
    """Read the newest steps of a run; none where they are damaged, so that its pace is learned anew."""
    try:
        return _RECENT.decode(stored)
    except msgspec.MsgspecError:
        return Recent()


@dataclass(slots=True, kw_only=True)
class Run:
    """A run as ingest and the projector work on it; each writes back the columns that it owns."""

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
    phase: str = "unknown"
    ended: str | None = None
    given_up_at: float | None = None
    announced: str = ""
    last_step: int | None = None
    last_attempt: int = -1
    step_seconds: float | None = None
    recent: Recent = field(default_factory=Recent)
    log_end: int = 0
    signal_count: int = 0
    position: int = 0
    projected_attempt: int = 0
    revision: int = 0
    owner: str | None = None
    owned_until: float | None = None
    quarantined_at: float | None = None
    quarantine_reason: str | None = None

    def take_ingested(self, stored: "Run") -> None:
        """Take over what ingest has written since this run was read."""
        for name in _INGEST_COLUMNS:
            if name != "last_step_at":
                setattr(self, name, getattr(stored, name))
        # Both write it: ingest when an attempt begins, and the projector at a step.
        self.last_step_at = max(self.last_step_at, stored.last_step_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Records that follow a position of a run's log, and when they came."""

    run_id: str
    begin: int
    end: int
    now: float
    records: Sequence[StoredRecord]


class Runs:
    """Reads and writes runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, run_id: str) -> Run | None:
        """Return a run, or None."""
        return self._run(_FIND, run_id)

    def lock(self, run_id: str) -> Run | None:
        """Return a run that nobody else writes until the transaction ends, or None."""
        return self._run(_LOCK, run_id)

    def add(self, run: Run) -> Run:
        """Write a new run and lock it; where another collector was first, its run is returned.

        Raises:
            DeletionUnderWay: If a run of this id is being deleted, after which it can begin anew.
        """
        # A run that was deleted may begin anew: above every position and revision that anybody remembers of it.
        run.log_end = run.position = run.revision = int(run.started_at * 1e6)
        values = asdict(run) | {"recent": msgspec.msgpack.encode(run.recent)}
        insert_ = sqlite_insert if self._connection.dialect.name == "sqlite" else postgresql_insert
        self._connection.execute(insert_(runs).on_conflict_do_nothing(index_elements=["id"]), values)
        found = self.lock(run.id)
        if found is None:
            raise DeletionUnderWay(f"run {run.id} is being deleted; send again later")
        return found

    def save_ingest(self, run: Run) -> None:
        """Write back what ingest owns."""
        self._connection.execute(_SAVE, {name: getattr(run, name) for name in _INGEST_COLUMNS} | {"run": run.id})

    def extend_logs(self, extensions: Sequence[Extension]) -> bool:
        """Move the ends of the logs of runs, and lock the runs; return False if one does not end where it begins."""
        rows = [{"run": each.run_id, "begin": each.begin, "end": each.end, "now": each.now} for each in extensions]
        if self._connection.dialect.name == "sqlite":
            return _EXTEND_LOG.execute_many(self._connection, rows) == len(rows)
        joined: dict[str, tuple[int, int, float]] = {}
        for each in extensions:
            begin, end, _ = joined.get(each.run_id, (each.begin, each.begin, 0.0))
            if each.begin != end:
                return False
            joined[each.run_id] = (begin, each.end, each.now)
        columns = [list(joined), *map(list, zip(*joined.values(), strict=True))]
        return self._connection.exec_driver_sql(_EXTEND_LOGS, tuple(columns)).rowcount == len(joined)

    def last_step(self, run_id: str) -> int | None:
        """Return the newest step of a run that is projected, or None."""
        return self._connection.execute(select(runs.c.last_step).where(runs.c.id == run_id)).scalar()

    def save_projection(self, run: Run) -> bool:
        """Write back what the projector owns as the next revision; return False if another has done so meanwhile."""
        seen, run.revision = run.revision, run.revision + 1
        values = {name: getattr(run, name) for name in _PROJECTION_COLUMNS}
        values |= {"recent": msgspec.msgpack.encode(run.recent), "run": run.id, "seen": seen}
        return self._connection.execute(_SAVE_REVISION, values).rowcount == 1

    def save_config(self, run_id: str, attempt: int, config: bytes, *, describe: Callable[[bytes, bytes], str]) -> None:
        """Write a run's configuration, once in an attempt, and where it differs from the one before.

        Args:
            run_id: The run.
            attempt: The attempt.
            config: The configuration as JSON.
            describe: Returns in words where two configurations differ.
        """
        row = self._connection.execute(_ATTEMPT, {"run": run_id, "attempt": attempt}).one()
        if not row.has_config:
            before = self._connection.execute(select(runs.c.config).where(runs.c.id == run_id)).scalar()
            here = (attempts.c.run_id == run_id) & (attempts.c.attempt == attempt)
            change = None if before is None else describe(before, config)
            self._connection.execute(update(attempts).where(here), {"has_config": True, "config_change": change})
            self._connection.execute(update(runs).where(runs.c.id == run_id), {"config": config})

    def enter_attempt(self, run_id: str, attempt: int, *, world_size: int, now: float, position: int) -> int | None:
        """Keep an attempt, and return the largest world size that any of its ranks had sent; None if it is new.

        Raises:
            DeletionUnderWay: If the attempt was removed and rows of it are still stored.
        """
        row = self._connection.execute(_ATTEMPT, {"run": run_id, "attempt": attempt}).one_or_none()
        if row is None:
            values = {"run_id": run_id, "attempt": attempt, "world_size": world_size}
            self._connection.execute(
                insert(attempts), values | {"first_seen": now, "position": position, "has_config": False}
            )
            return None
        if row.world_size == REMOVED:
            raise DeletionUnderWay(f"attempt {attempt} of run {run_id} is being removed by a reset; send again later")
        if row.world_size < world_size:
            self.set_world_size(run_id, attempt, world_size)
        return max(int(row.world_size), world_size)

    def set_world_size(self, run_id: str, attempt: int, world_size: int) -> None:
        """Write how many ranks an attempt has."""
        here = (attempts.c.run_id == run_id) & (attempts.c.attempt == attempt)
        self._connection.execute(update(attempts).where(here), {"world_size": world_size})

    def attempts_begun(self, run_id: str, *, after: int) -> dict[int, int]:
        """Return position and number of the attempts that began after a position of the log."""
        rows = self._connection.execute(_BEGUN, {"run": run_id, "after": after})
        return {position: attempt for position, attempt in rows}  # noqa: C416 - rows are not pairs to mypy

    def mark_removed(self, run_id: str, *, above: int) -> None:
        """Hide every attempt above one from readers; `Retention.remove_attempt_rows` then removes what they hold."""
        here = (attempts.c.run_id == run_id) & (attempts.c.attempt > above)
        self._connection.execute(update(attempts).where(here), {"world_size": REMOVED})

    def attempts(self, run_id: str) -> dict[int, tuple[int, int]]:
        """Return each attempt's ordinal, from 1, and world size."""
        rows = self._connection.execute(_ATTEMPTS, {"run": run_id})
        return {attempt: (ordinal, world_size) for ordinal, (attempt, world_size) in enumerate(rows, start=1)}

    def attempt_spans(self, run_id: str) -> list[AttemptSpan]:
        """Return the steps of each attempt, the oldest attempt first."""
        rows = self._connection.execute(_SPANS, {"run": run_id}).mappings()
        return [AttemptSpan(**{str(name): value for name, value in row.items()}) for row in rows]

    def view(self, run_id: str, *, now: float, deadlines: Deadlines) -> dict[str, Any] | None:
        """Return the run as readers see it, or None."""
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
        is_archived: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Return runs as readers see them, the newest first, before the one numbered ``before``."""
        query = _view(now, deadlines).order_by(runs.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(runs.c.number < before)
        if project is not None:
            query = query.where(runs.c.project == project)
        if status is not None:
            query = query.where(status_column(now, deadlines) == status)
        if is_archived is not None:
            query = query.where(runs.c.archived_at.is_not(None) == is_archived)
        return [_fields(row) for row in self._connection.execute(query).mappings()]

    def save_labels(self, run_id: str, labels: Mapping[str, object]) -> None:
        """Write what people say about a run: some of ``title``, ``tags`` (JSON), ``notes`` and ``archived_at``."""
        self._connection.execute(update(runs).where(runs.c.id == run_id), dict(labels))

    def row(self, run_id: str) -> dict[str, Any] | None:
        """Return all columns of a run, or None."""
        query = select(runs).where(runs.c.id == run_id, runs.c.deleted_at.is_(None))
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _fields(row)

    def exists(self, run_id: str) -> bool:
        """Whether a run has this id."""
        query = select(runs.c.id).where(runs.c.id == run_id, runs.c.deleted_at.is_(None))
        return self._connection.execute(query).first() is not None

    def project(self, run_id: str) -> str | None:
        """Return the project of a run, or None where no run has this id."""
        query = select(runs.c.project).where(runs.c.id == run_id, runs.c.deleted_at.is_(None))
        return self._connection.execute(query).scalar_one_or_none()

    def live(self, *, now: float, deadlines: Deadlines, limit: int) -> list[dict[str, Any]]:
        """Return the runs that have not ended, the last heard first."""
        query = (
            _view(now, deadlines).where(is_live_column(now, deadlines)).order_by(runs.c.last_seen.desc()).limit(limit)
        )
        return [_fields(row) for row in self._connection.execute(query).mappings()]

    def changed(self, *, now: float, deadlines: Deadlines) -> list[str]:
        """Return the runs whose status is not the one last announced."""
        return list(self._connection.execute(_changed(deadlines), {"now": now}).scalars())

    def newest_time(self) -> float | None:
        """Return when a run was last heard, or None before the first."""
        return self._connection.execute(select(func.max(runs.c.last_seen))).scalar()

    def limit_times(self, now: float) -> None:
        """Set every time to ``now`` that lies ahead of it and that a deadline counts from."""
        counted = (runs.c.started_at, runs.c.last_seen, runs.c.last_step_at, runs.c.given_up_at, runs.c.quarantined_at)
        for column in (*counted, runs.c.owned_until, attempts.c.first_seen, waiting.c.first_seen):
            self._connection.execute(update(column.table).where(column > now), {column.name: now})

    def unprojected(self) -> int:
        """Return how many entries of all logs wait to be projected; those of quarantined runs do not."""
        query = select(func.coalesce(func.sum(runs.c.log_end - runs.c.position), 0)).where(
            runs.c.quarantined_at.is_(None), runs.c.deleted_at.is_(None)
        )
        return int(self._connection.execute(query).scalar_one())

    def behind(self) -> list[str]:
        """Return the runs whose log is not projected to its end."""
        return list(self._connection.execute(_BEHIND).scalars())

    def quarantined(self, *, before: float | None = None) -> list[str]:
        """Return the runs that the projector gave up, all or those given up before a time."""
        if before is None:
            return list(self._connection.execute(_QUARANTINED).scalars())
        return list(self._connection.execute(_QUARANTINED_BEFORE, {"before": before}).scalars())

    def claim(self, run_id: str, owner: str, *, now: float, until: float) -> bool:
        """Make a projector the owner of a run until a time; return False while another is."""
        is_free = runs.c.owner.is_(None) | (runs.c.owned_until <= now) | (runs.c.owner == owner)
        query = update(runs).where(runs.c.id == run_id, is_free)
        return self._connection.execute(query, {"owner": owner, "owned_until": until}).rowcount == 1

    def release(self, owner: str) -> None:
        """Leave all runs of a projector to others."""
        self._connection.execute(update(runs).where(runs.c.owner == owner), {"owner": None, "owned_until": None})

    def _run(self, query: Select[Any], run_id: str) -> Run | None:
        row = self._connection.execute(query, {"run": run_id}).mappings().one_or_none()
        if row is None:
            return None
        fields = _fields(row)
        return Run(**fields | {"recent": read_recent(fields["recent"])})


def _fields(row: RowMapping) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


@cache
def _changed(deadlines: Deadlines) -> Select[Any]:
    """Build once for a collector the query of the runs whose status is not the one last announced."""
    status = status_column(bindparam("now", type_=Float), deadlines)
    return select(runs.c.id).where(status != runs.c.announced, runs.c.deleted_at.is_(None))


def _view(now: float, deadlines: Deadlines) -> Select[Any]:
    firing = select(func.count()).where(alerts.c.run_id == runs.c.id, alerts.c.state == "firing").scalar_subquery()
    ordinal = (
        select(func.count())
        .where(attempts.c.run_id == runs.c.id, attempts.c.attempt <= runs.c.attempt, attempts.c.world_size != REMOVED)
        .scalar_subquery()
    )
    began = (
        select(func.max(phases.c.from_step))
        .where(phases.c.run_id == runs.c.id, phases.c.to_step.is_(None))
        .scalar_subquery()
    )
    shown = (status_column(now, deadlines).label("status"), firing.label("firing"), ordinal.label("ordinal"))
    return select(runs, *shown, began.label("phase_from_step")).where(runs.c.deleted_at.is_(None))
