"""The data of a run that the budget reads: the rows whose alarms have a degree, with the largest strength at each."""

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from benchmarks.detection.authored.suite import TEST_SEEDS, benign_kinds, displacement_kinds, failure_kinds, make_run
from benchmarks.detection.runs import Group, LabelledRun
from benchmarks.detection.suites.real_logs.by_repository import repository
from benchmarks.detection.suites.real_logs.corpus import labelled_corpus
from benchmarks.detection.suites.recordings import recordings
from monitor_server.detection.engine import Engine
from monitor_server.detection.false_alarm_budget import FalseAlarmBudget, Warranty
from monitor_server.detection.protocol import Finding, Severity

__all__ = ["LEVELS", "RunPages", "authored_pages", "open_rows", "real_pages", "recorded_pages"]

LEVELS = {"pages": (Severity.CRITICAL,), "warnings": (Severity.CRITICAL, Severity.WARNING)}


@dataclass(frozen=True, kw_only=True)
class RunPages:
    """The data of one run that the budget reads.

    Attributes:
        name: The name of the run.
        source: The origin that similar runs share: the kind of an authored run, or the repository.
        is_healthy: Whether every page of it is false.
        rows: Number of rows.
        end: Row of the failure of a run that fails, else ``rows``.
        alarms: For each of `LEVELS` the rows with an alarm that has a degree, and the largest strength there.
    """

    name: str
    source: str
    is_healthy: bool
    rows: int
    end: int
    alarms: dict[str, list[tuple[int, float]]]

    @cached_property
    def largest(self) -> dict[str, float]:
        """The largest strength of the run's alarms by level, 0 without an alarm."""
        return {level: max([strength for _, strength in rows], default=0.0) for level, rows in self.alarms.items()}

    def score(self, level: str) -> tuple[int, float]:
        """Return the number of rows and the largest strength, from which a warranty is made."""
        return self.rows, self.largest[level]


def authored_pages(seeds: int, *, first: int, workers: int) -> list[RunPages]:
    """Return authored runs of every kind, made from test seeds."""
    kinds = (*benign_kinds(), *displacement_kinds(), *failure_kinds())
    jobs = [(kind, seed) for seed in TEST_SEEDS[first : first + seeds] for kind in kinds]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(_authored, jobs, chunksize=4))


def recorded_pages(folder: Path, *, workers: int) -> list[RunPages]:
    """Return the recordings of the reference trainer below a folder."""
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(_of_run, recordings(folder), chunksize=2))


def real_pages(folders: Sequence[Path], *, workers: int) -> list[RunPages]:
    """Return the real logs of language models without the runs that neither succeeded nor failed."""
    kept = [r for r in labelled_corpus(*folders) if r.truth.group is not Group.UNSCORED and r.truth.is_language_model]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(partial(_of_run, is_real=True), kept, chunksize=4))


def open_rows(run: RunPages, level: str, warranty: Warranty | None) -> list[int]:
    """Return the rows at which a run's pages open under a warranty; None means no warranty."""
    if not run.alarms[level]:
        return []
    budget = FalseAlarmBudget(warranty or Warranty(steps_per_page=math.inf))
    opened, before = [], -2
    for row, strength in run.alarms[level]:
        follows, before = row == before + 1, row
        if follows and (budget.is_open or strength <= budget.largest):
            budget.largest = max(budget.largest, strength)  # no page can open here: as `update`, and much faster
            continue
        if not follows:
            budget.update(())
        pages = budget.pages
        budget.update((_finding(row, strength),))
        if budget.pages > pages:
            opened.append(row)
    return opened


def _authored(job: tuple[str, int]) -> RunPages:
    return _of_run(make_run(*job))


def _of_run(run: LabelledRun, *, is_real: bool = False) -> RunPages:
    engine = Engine()
    alarms: dict[str, list[tuple[int, float]]] = {level: [] for level in LEVELS}
    steps = [observation.step for observation in run.observations]
    for row, observation in enumerate(run.observations):
        findings = engine.update(observation).findings
        for level, severities in LEVELS.items():
            strengths = [f.strength for f in findings if f.severity in severities and math.isfinite(f.strength)]
            if strengths:
                alarms[level].append((row, max(strengths)))
    collapse = run.truth.collapse
    return RunPages(
        name=run.name,
        source=repository(run.name) if is_real else run.truth.kind,
        is_healthy=run.truth.group is Group.BENIGN,
        rows=len(steps),
        end=len(steps) if collapse is None else _first_at_or_after(steps, collapse),
        alarms=alarms,
    )


def _first_at_or_after(steps: Iterable[int], step: int) -> int:
    return sum(other < step for other in steps)


def _finding(row: int, strength: float) -> Finding:
    return Finding(kind="page", severity=Severity.CRITICAL, step=row, score=strength, threshold=1.0, summary="")
