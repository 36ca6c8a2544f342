"""Runs as rows of evidence, each with the number of rows until the collapse."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.authored.suite import benign_kinds, displacement_kinds, failure_kinds, make_run
from benchmarks.detection.candidates.engine import without_pairs
from benchmarks.detection.induced.pairs import pairs
from benchmarks.detection.runs import Group, LabelledRun
from benchmarks.detection.suites.real_logs.by_repository import repository
from benchmarks.detection.suites.real_logs.corpus import labelled_corpus
from benchmarks.detection.suites.recordings import recordings
from monitor_server.detection.engine import Engine
from monitor_server.detection.forecast.evidence import EVIDENCE
from monitor_server.detection.protocol import Observation

__all__ = ["Rows", "authored_rows", "induced_rows", "real_rows", "recorded_rows"]

NAMES = tuple(EVIDENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of many runs before their collapse.

    Attributes:
        evidence: One row of numbers for each row, in the order of `EVIDENCE`.
        ahead: Rows until the collapse, at least 1, or until the end of a run that does not collapse, at least 0.
        collapses: Whether the run of each row collapses.
        units: The unit that is drawn with replacement for intervals: the run, or for real logs the repository.
        groups: The group that is left out together: the kind of an authored run, the setting of a recording, or
            the repository.
        has_ratios: Whether the run observes likelihood ratios at each row.
    """

    evidence: NDArray[np.float64]
    ahead: NDArray[np.int64]
    collapses: NDArray[np.bool_]
    units: NDArray[np.str_]
    groups: NDArray[np.str_]
    has_ratios: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Iterable[Self]) -> Self:
        """Put the rows of several runs together."""
        kept = list(parts)
        return cls(**{f.name: np.concatenate([getattr(part, f.name) for part in kept]) for f in fields(cls)})

    def take(self, chosen: NDArray[np.bool_]) -> "Rows":
        """Return the chosen rows."""
        return Rows(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    def without_evidence(self) -> "Rows":
        """Return the rows with all evidence 0, which leaves a fit nothing but the base rate."""
        return replace(self, evidence=np.zeros_like(self.evidence))

    def without_ratios(self) -> "Rows":
        """Return the rows as a run without ratios sends them."""
        evidence = self.evidence.copy()
        evidence[:, NAMES.index("ratio_rise")] = 0.0
        return replace(self, evidence=evidence, has_ratios=np.zeros_like(self.has_ratios))

    def outcomes(self, horizon: int) -> NDArray[np.float64]:
        """Return 1 where the run collapses within ``horizon`` rows, 0 where not, NaN where it ended before."""
        within = np.where(self.collapses & (self.ahead <= horizon), 1.0, 0.0)
        within[~self.collapses & (self.ahead < horizon)] = np.nan
        return within


def authored_rows(seeds: Sequence[int], *, workers: int) -> Rows:
    """Return suite A as a trainer with likelihoods sends it, half of the seeds with the paired channel."""
    kinds = (*benign_kinds(), *displacement_kinds(), *failure_kinds())
    jobs = [(kind, seed) for seed in seeds for kind in kinds]
    with ProcessPoolExecutor(workers) as pool:
        return Rows.join(pool.map(_authored, jobs, chunksize=4))


def recorded_rows(folder: Path) -> Rows:
    """Return suite B, the recordings of the reference trainer below a folder.

    Folders of the same name hold runs of the same setting, many of them from the same seeds, so they are one group.
    """
    return Rows.join(
        _rows(run, run.observations, unit=run.name, group=Path(run.name).parent.name) for run in recordings(folder)
    )


def induced_rows(folder: Path, *, workers: int) -> Rows:
    """Return suite D as the hooks sent it; a pair is a unit, and a failing run that did not fail is left out."""
    jobs = [
        (f"{pair.failing.name}, {pair.half}", run)  # pairs of two trainers have the same names
        for pair in pairs(folder, "hooks")
        for run in ([pair.failing] if pair.has_failed else []) + [pair.healthy]
    ]
    with ProcessPoolExecutor(workers) as pool:
        return Rows.join(pool.map(_induced, jobs, chunksize=4))


def real_rows(folders: Sequence[Path], *, workers: int) -> Rows:
    """Return suite C, folders of labelled logs; runs that neither succeeded nor failed are left out."""
    runs = [run for run in labelled_corpus(*folders) if run.truth.group is not Group.UNSCORED]
    with ProcessPoolExecutor(workers) as pool:
        return Rows.join(pool.map(_real, runs, chunksize=8))


def _authored(job: tuple[str, int]) -> Rows:
    run = make_run(*job)
    observations = run.observations if job[1] % 2 else without_pairs(run.observations)
    return _rows(run, observations, unit=run.name, group=job[0])


def _induced(job: tuple[str, LabelledRun]) -> Rows:
    unit, run = job
    return _rows(run, run.observations, unit=unit, group=unit.partition(",")[0])


def _real(run: LabelledRun) -> Rows:
    name = repository(run.name)
    return _rows(run, run.observations, unit=name, group=name)


def _rows(run: LabelledRun, observations: Sequence[Observation], *, unit: str, group: str) -> Rows:
    engine, found, has_ratios = Engine(), [], []
    for observation in observations:
        assessment = engine.update(observation)
        read = engine.forecaster.read(engine.detectors, assessment.findings)
        found.append([read.get(name, 0.0) for name in NAMES])
        has_ratios.append(engine.forecaster.ratios.is_observed)
    steps = np.array([observation.step for observation in observations])
    collapse = run.truth.collapse
    end = len(steps) - 1 if collapse is None else int(np.searchsorted(steps, collapse))
    kept = len(steps) if collapse is None else end
    return Rows(
        evidence=np.array(found, dtype=float).reshape(-1, len(NAMES))[:kept],
        ahead=end - np.arange(kept),
        collapses=np.full(kept, collapse is not None),
        units=np.full(kept, unit),
        groups=np.full(kept, group),
        has_ratios=np.array(has_ratios, dtype=bool)[:kept],
    )
