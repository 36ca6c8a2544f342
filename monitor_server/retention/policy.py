"""Finds the data that the limits of retention allow to be removed, and removes it slice by slice."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from monitor_server.access.audit.entries import change_entry, record_change
from monitor_server.access.callers import Caller, Scope
from monitor_server.alerts.collector_alerts import RUN_ID
from monitor_server.durations import DAY_SECONDS
from monitor_server.retention.limits import SavableLimits, limits_in_force
from monitor_server.settings import Settings
from monitor_server.store.repositories import Repositories

__all__ = ["Removed", "RetentionPolicy", "Task"]

# A record has up to about 30 KB and a response up to 256 KB, so a slice takes some tens of milliseconds. The first one
# that thins the steps of a long run takes up to about 0.1 s, because it counts them.
ROWS_PER_SLICE = 250
RUNS_PER_SLICE = 100  # whose deletion begins in one transaction, with an entry of the audit log each
# Ingest thins the old responses of a run that sends. The rest of a run is removed here after this time without a batch.
SILENT_SECONDS = 60.0
RETENTION = Caller(name="retention", scope=Scope.ADMIN)  # the author of the removals that the settings cause


Kind = Literal[
    "deleted_run", "removed_attempts", "old_responses", "records", "responses", "steps", "audit_entries", "silences"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Data to remove, usually of one run.

    Attributes:
        kind: ``audit_entries`` and ``silences`` belong to no run; ``deleted_run`` removes all of a run whose deletion
            has begun, ``removed_attempts`` the rows that a reset has hidden, ``old_responses`` the responses of a run
            beyond its limit; the others remove or thin one of its tables.
        run_id: The run, or "".
        kept_steps: For ``records``: the number of newest steps whose records are kept.
        limits: The limits that cause the removal; None if a person, a reset or ingest causes it.
        silent_since: For data of silent runs: the task is dropped if a batch has arrived since then, because the other
            tasks may take hours.
        stride: For ``steps``: one of how many step numbers is kept; None until the first slice has counted the steps.
    """

    kind: Kind
    run_id: str = ""
    kept_steps: int = 0
    limits: SavableLimits | None = None
    silent_since: float | None = None
    stride: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """The result of a slice: the removed rows of a table, and the task that removes the others; None if it is done."""

    table: str
    rows: int
    rest: Task | None


class RetentionPolicy:
    """Applies the settings of retention.

    Args:
        settings: Of the collector.
        clock: Returns seconds since the epoch.
        may_be_ahead: Returns whether the clock may be wrong. While it may be, nothing is removed because of its
            age.
    """

    def __init__(
        self, settings: Settings, *, clock: Callable[[], float], may_be_ahead: Callable[[], bool] = lambda: False
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._may_be_ahead = may_be_ahead
        self._audited_at = -math.inf  # when the whole audit log was last read

    def deletes_runs(self, repositories: Repositories) -> bool:
        """Whether a limit deletes runs because of their age."""
        return self._limits(repositories).run_days is not None

    def begin_deletions(self, repositories: Repositories) -> bool:
        """Begin to delete some of the runs that exceed the limit of age, unless their trainer sends.

        The run with the alerts about the collector stays while one of them fires, and a run stays while a rule
        compares with it.

        Returns:
            Whether there may be more of them.
        """
        days = self._limits(repositories).run_days
        if days is None:
            return False
        now = self._clock()
        since = now - days * DAY_SECONDS
        kept = [*repositories.rules.compared_runs(), *([RUN_ID] if repositories.alerts.firing(RUN_ID) else [])]
        old = repositories.deletion.silent(
            since=since, now=now, deadlines=self._settings.deadlines, limit=RUNS_PER_SLICE, without=kept
        )
        if old:
            detail = f"no batch for {days:g} days"
            repositories.audit_log.add(
                [
                    change_entry(RETENTION, "run.delete", run_id, now=now, project=project, detail=detail)
                    for run_id, project in old.items()
                ]
            )
            repositories.deletion.begin_deletion(old, now=now)
        return len(old) == RUNS_PER_SLICE

    def find_tasks(self, repositories: Repositories) -> list[Task]:
        """Return the removals that are due, without the urgent ones."""
        settings, now = self._settings, self._clock()
        limits = self._limits(repositories)
        since = now - SILENT_SECONDS
        silent = repositories.response_thinning.with_old_responses(
            silent_since=since, kept_steps=settings.response_steps
        )
        tasks = [Task(kind="old_responses", run_id=run_id) for run_id in silent]
        before = now - settings.audit_days * DAY_SECONDS
        is_held = self._may_be_ahead()
        if not is_held and self._has_old_entries(repositories, before=before, now=now):
            tasks.append(Task(kind="audit_entries"))
        if not is_held and repositories.silences.has_old(before=before):
            tasks.append(Task(kind="silences"))
        if limits.record_steps is not None:
            kept = limits.record_steps
            found = repositories.record_thinning.with_more_steps(kept)
            tasks += [Task(kind="records", run_id=each, kept_steps=kept, limits=limits) for each in found]
        of_days: tuple[tuple[Kind, float | None, Callable[..., list[str]]], ...] = (
            ("records", limits.record_days, repositories.record_thinning.with_records),
            ("responses", limits.response_days, repositories.response_thinning.with_responses),
            ("steps", limits.step_days, partial(_find_thinnable, repositories, most=limits.thinned_steps)),
        )
        for kind, days, find_old in of_days:
            if days is not None:
                since = now - days * DAY_SECONDS
                old = find_old(silent_since=since)
                tasks += [Task(kind=kind, run_id=run_id, limits=limits, silent_since=since) for run_id in old]
        return tasks

    def find_urgent_tasks(self, repositories: Repositories) -> list[Task]:
        """Return the removals of deleted runs and of reset attempts: until they end, trainers may be refused."""
        deletion = repositories.deletion
        tasks = [Task(kind="deleted_run", run_id=run_id) for run_id in deletion.deleted_runs()]
        return tasks + [Task(kind="removed_attempts", run_id=each) for each in deletion.with_removed_attempts()]

    def remove_slice(self, repositories: Repositories, task: Task) -> Removed:
        """Remove a bounded number of rows."""
        limits = task.limits
        if limits is not None and limits != self._limits(repositories):
            return Removed(table=task.kind, rows=0, rest=None)  # the next search uses the new limits
        if task.kind in ("audit_entries", "silences"):
            return self._remove_old(repositories, task)
        if task.kind == "deleted_run":
            found = repositories.deletion.remove_rows(task.run_id, limit=ROWS_PER_SLICE)
            return Removed(table="runs", rows=0, rest=None) if found is None else _removal_of(found, task)
        if task.kind == "removed_attempts":
            found = repositories.deletion.remove_attempt_rows(task.run_id, limit=ROWS_PER_SLICE)
            return Removed(table="attempts", rows=0, rest=None) if found is None else _removal_of(found, task)
        if task.kind == "old_responses":
            kept = self._settings.response_steps
            rows, has_more = repositories.response_thinning.thin_responses(
                task.run_id, kept_steps=kept, limit=ROWS_PER_SLICE
            )
            return Removed(table="responses", rows=rows, rest=task if has_more else None)
        since = task.silent_since
        # A run that trains loses records every few seconds: its first slice is recorded. Otherwise the last one is.
        is_first = task.kept_steps > 0 and not repositories.record_thinning.has_thinned_records(task.run_id)
        if task.kind == "records":
            rows, has_more = repositories.record_thinning.thin_records(
                task.run_id, kept_steps=task.kept_steps, limit=ROWS_PER_SLICE, silent_since=since
            )
        elif task.kind == "responses":
            rows, has_more = repositories.response_thinning.remove_responses(
                task.run_id, limit=ROWS_PER_SLICE, silent_since=since
            )
        else:
            most = self._settings.thinned_steps if limits is None else limits.thinned_steps
            rows, stride = repositories.step_thinning.thin_steps(
                task.run_id, most=most, silent_since=since, stride=task.stride
            )
            task, has_more = replace(task, stride=stride), stride is not None
        if rows and (is_first if task.kept_steps else not has_more):
            self._record(repositories, f"run.remove_{task.kind}", task.run_id, "as the settings of retention demand")
        return Removed(table=task.kind, rows=rows, rest=task if has_more else None)

    def _limits(self, repositories: Repositories) -> SavableLimits:
        """Return the limits in force, without those that count days while the clock may be wrong."""
        limits = limits_in_force(repositories, self._settings)
        if not self._may_be_ahead():
            return limits
        return replace(limits, record_days=None, response_days=None, step_days=None, run_days=None)

    def _has_old_entries(self, repositories: Repositories, *, before: float, now: float) -> bool:
        """Whether the audit log has old entries: the first ones are read at each search, and all of them once a day."""
        is_whole = abs(now - self._audited_at) >= DAY_SECONDS  # also after a clock that was ahead is set back
        if is_whole:
            self._audited_at = now
        return repositories.audit_log.has_old(before=before, is_whole=is_whole)

    def _remove_old(self, repositories: Repositories, task: Task) -> Removed:
        """Remove entries of the audit log, or silences that have ended, by their age."""
        before = self._clock() - self._settings.audit_days * DAY_SECONDS
        repository = repositories.audit_log if task.kind == "audit_entries" else repositories.silences
        rows = repository.remove_old(before=before, limit=ROWS_PER_SLICE)
        return Removed(table=task.kind, rows=rows, rest=task if rows == ROWS_PER_SLICE else None)

    def _record(self, repositories: Repositories, action: str, run_id: str, detail: str) -> None:
        project = repositories.runs.project(run_id)
        record_change(repositories, RETENTION, action, run_id, now=self._clock(), project=project, detail=detail)


def _find_thinnable(repositories: Repositories, *, silent_since: float, most: int) -> list[str]:
    """Return the silent runs whose steps are to be thinned; a rule that compares with a run needs all its steps."""
    compared = repositories.rules.compared_runs()
    return repositories.step_thinning.with_steps(silent_since=silent_since, most=most, without=compared)


def _removal_of(found: tuple[str, int], task: Task) -> Removed:
    table, rows = found
    return Removed(table=table, rows=rows, rest=task)
