"""Runs, in the form that ingest and the projector write."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from monitor_server.errors import DeletionUnderWay
from monitor_server.store.repositories.listed_columns import reward_columns, text_columns
from monitor_server.store.repositories.recent_steps import Recent, read_recent
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.repositories.run_status import ENDED
from monitor_server.store.tables import attempts, runs, waiting

__all__ = ["Run", "Runs", "lock_in_order"]

# Built once: building these takes SQLAlchemy longer than SQLite takes to answer them, and each batch or tick uses them.
_LABELS = ("title", "tags", "notes", "archived_at")
_LISTED = ("search_text", "setting", "tagged_owner", "first_tag", "reward", "reward_change")
_THINNED_RECORDS = ("records_thinned_to", "records_kept_steps", "records_thinned_at")
_THINNED_RESPONSES = ("responses_thinned_to", "responses_thinned_at")
_RETENTION = ("compacted_to", "deleted_at", *_THINNED_RECORDS, *_THINNED_RESPONSES)
_OF_OTHERS = ("number", "config", *_RETENTION, *_LABELS, *_LISTED)
_WORKED_ON = [column for column in runs.c if column.name not in _OF_OTHERS]
_ROW = select(runs).where(runs.c.id == bindparam("run"), runs.c.deleted_at.is_(None))
_FIND = select(*_WORKED_ON).where(runs.c.id == bindparam("run"), runs.c.deleted_at.is_(None))
# A new row in a table of the run locks the run's key, which nobody changes; that lock is no reason to wait.
_LOCK = _FIND.with_for_update(key_share=True)
_LABELLED = (
    select(runs.c.project, runs.c.name, runs.c.title, runs.c.tags)
    .where(runs.c.id == bindparam("run"), runs.c.deleted_at.is_(None))
    .with_for_update(key_share=True)
)
_SAVE = update(runs).where(runs.c.id == bindparam("run"))
_SAVE_REVISION = _SAVE.where(runs.c.revision == bindparam("seen"), runs.c.deleted_at.is_(None))
_INGEST_COLUMNS = (
    "source",
    "capability",
    "world_size",
    "attempt",
    "ended",
    "ended_rank",
    "given_up_at",
    "last_seen",
    "last_step_at",
    "log_end",
    "signal_count",
    "left_out_signals",
    "left_out_step",
    "left_out_name",
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
    "has_ready_steps",
    "revision",
    "owner",
    "owned_until",
    "quarantined_at",
    "quarantine_reason",
    "steps_thinned_to",
)


@dataclass(slots=True, kw_only=True)
class Run:
    """A run as ingest and the projector use it; each of them writes only the columns that it owns."""

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
    ended_rank: int | None = None
    given_up_at: float | None = None
    announced: str = ""
    last_step: int | None = None
    last_attempt: int = -1
    step_seconds: float | None = None
    recent: Recent = field(default_factory=Recent)
    log_end: int = 0
    signal_count: int = 0
    left_out_signals: int = 0
    left_out_step: int | None = None
    left_out_name: str | None = None
    position: int = 0
    projected_attempt: int = 0
    has_ready_steps: bool = False
    revision: int = 0
    owner: str | None = None
    owned_until: float | None = None
    quarantined_at: float | None = None
    quarantine_reason: str | None = None
    steps_thinned_to: int = 0
    has_thinned_steps: bool = False
    is_settled: bool = False

    @property
    def is_projected(self) -> bool:
        """Whether its log is projected to the end, and every complete step has been processed."""
        return self.position >= self.log_end and not self.has_ready_steps

    def take_ingested(self, stored: "Run") -> None:
        """Copy the columns that ingest has written since this run was read."""
        for name in _INGEST_COLUMNS:
            if name != "last_step_at":
                setattr(self, name, getattr(stored, name))
        # Both write this column: ingest when an attempt begins, and the projector at a step.
        self.last_step_at = max(self.last_step_at, stored.last_step_at)


def lock_in_order(connection: Connection, which: ColumnElement[bool]) -> None:
    """Lock several runs before one statement changes them, in the order in which ingest locks those of a commit.

    The statement itself would lock them in any order, and could be in a deadlock with ingest. SQLite has no such locks.
    """
    query = select(runs.c.id).where(which).order_by(runs.c.id).with_for_update(key_share=True)
    connection.execute(query).all()


class Runs:
    """Reads and writes runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, run_id: str) -> Run | None:
        """Return a run, or None."""
        return self._run(_FIND, run_id)

    def lock(self, run_id: str) -> Run | None:
        """Return and lock a run until the transaction ends, or None."""
        return self._run(_LOCK, run_id)

    def add(self, run: Run) -> Run:
        """Write a new run and lock it; if another collector was first, its run is returned.

        Raises:
            DeletionUnderWay: If a run of this id is being deleted, after which it can begin anew.
        """
        # A deleted run may begin again: its numbers must be above every position and revision of the deleted run.
        run.log_end = run.position = run.revision = int(run.started_at * 1e6)
        values = asdict(run) | {"recent": msgspec.msgpack.encode(run.recent)}
        values |= text_columns(project=run.project, name=run.name, title=None, tags=())
        insert_ = sqlite_insert if self._connection.dialect.name == "sqlite" else postgresql_insert
        self._connection.execute(insert_(runs).on_conflict_do_nothing(index_elements=["id"]), values)
        found = self.lock(run.id)
        if found is None:
            raise DeletionUnderWay(f"run {run.id} is being deleted; send again later")
        return found

    def save_ingest(self, run: Run) -> None:
        """Write the columns that ingest owns. The run must be locked.

        The projector looks at a settled run again, unless its trainer has ended it and the log has not moved.
        """
        run.is_settled = run.is_settled and run.ended is not None and run.is_projected
        written = (*_INGEST_COLUMNS, "is_settled")
        self._connection.execute(_SAVE, {name: getattr(run, name) for name in written} | {"run": run.id})

    def last_step(self, run_id: str) -> int | None:
        """Return the newest projected step of a run, or None."""
        return self._connection.execute(select(runs.c.last_step).where(runs.c.id == run_id)).scalar()

    def save_projection(self, run: Run) -> bool:
        """Write the projector's columns as the next revision; return False if another projector has just done so.

        The run must be locked.
        """
        seen, run.revision = run.revision, run.revision + 1
        run.is_settled = run.announced in ENDED and run.is_projected and run.quarantined_at is None
        values = {name: getattr(run, name) for name in (*_PROJECTION_COLUMNS, "is_settled")}
        values |= {"recent": msgspec.msgpack.encode(run.recent), "run": run.id, "seen": seen}
        values |= reward_columns(run.recent.rewards)
        return self._connection.execute(_SAVE_REVISION, values).rowcount == 1

    def save_labels(self, run_id: str, labels: Mapping[str, object]) -> bool:
        """Write people's labels of a run: some of ``title``, ``tags`` (JSON), ``notes`` and ``archived_at``.

        The words of the search are formed from old labels and new ones, so the run is locked until the transaction
        ends. Returns False if there is no such run.
        """
        row = self._connection.execute(_LABELLED, {"run": run_id}).mappings().one_or_none()
        if row is None:
            return False
        held = row_fields(row) | dict(labels)
        tags = [] if held["tags"] is None else json.loads(held["tags"])
        derived = text_columns(project=held["project"], name=held["name"], title=held["title"], tags=tags)
        self._connection.execute(update(runs).where(runs.c.id == run_id), dict(labels) | derived)
        return True

    def row(self, run_id: str) -> dict[str, Any] | None:
        """Return all columns of a run, or None."""
        row = self._connection.execute(_ROW, {"run": run_id}).mappings().one_or_none()
        return None if row is None else row_fields(row)

    def exists(self, run_id: str) -> bool:
        """Whether a run has this id."""
        query = select(runs.c.id).where(runs.c.id == run_id, runs.c.deleted_at.is_(None))
        return self._connection.execute(query).first() is not None

    def project(self, run_id: str) -> str | None:
        """Return the project of a run, or None if no run has this id."""
        query = select(runs.c.project).where(runs.c.id == run_id, runs.c.deleted_at.is_(None))
        return self._connection.execute(query).scalar_one_or_none()

    def newest_time(self) -> float | None:
        """Return the time at which any run was last heard, or None before the first."""
        return self._connection.execute(select(func.max(runs.c.last_seen))).scalar()

    def limit_times(self, now: float) -> None:
        """Set every time from which a deadline counts to ``now`` if it lies in the future."""
        counted = (runs.c.started_at, runs.c.last_seen, runs.c.last_step_at, runs.c.given_up_at, runs.c.quarantined_at)
        for column in (*counted, runs.c.owned_until, attempts.c.first_seen, waiting.c.first_seen):
            self._connection.execute(update(column.table).where(column > now), {column.name: now})

    def _run(self, query: Select[Any], run_id: str) -> Run | None:
        row = self._connection.execute(query, {"run": run_id}).mappings().one_or_none()
        if row is None:
            return None
        fields = row_fields(row)
        return Run(**fields | {"recent": read_recent(fields["recent"])})
