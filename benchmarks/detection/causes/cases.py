"""The runs of suites A and D whose cause is known with their alerts, and the healthy twins of the faults."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detection.authored.suite import displacement_kinds, failure_kinds, fault_kinds, make_fault, make_run
from benchmarks.detection.causes.known import LEFT_OUT
from benchmarks.detection.causes.openings import AlertOpening, opened_alerts
from benchmarks.detection.induced.pairs import Half, pairs
from benchmarks.detection.runs import LabelledRun

__all__ = ["Case", "Twin", "authored_cases", "induced_cases", "twins"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run with a known cause, and its alerts from the onset on.

    Attributes:
        kind: Kind of suite A, or name of the failure of suite D.
        alerts: The alerts that open or become more severe, whose rows count from the onset.
        half: The part of suite D to which the run belongs.
    """

    kind: str
    alerts: Sequence[AlertOpening]
    half: Half | None = None


@dataclass(frozen=True, slots=True)
class Twin:
    """The alerts of a healthy twin of a fault, all of them false."""

    fault: str
    alerts: Sequence[AlertOpening]


def authored_cases(seeds: Sequence[int], *, workers: int) -> list[Case]:
    """Return the failing kinds and faults of suite A with each seed, those of `known.LEFT_OUT` excepted."""
    kinds = [kind for kind in (*displacement_kinds(), *failure_kinds(), *fault_kinds()) if kind not in LEFT_OUT]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(_authored_case, *zip(*((kind, seed) for kind in kinds for seed in seeds), strict=True)))


def twins(seeds: Sequence[int], *, workers: int) -> list[Twin]:
    """Return the healthy twin of each fault with each seed; its levels have the same one."""
    faults = {kind.partition("-")[0]: kind for kind in fault_kinds()}
    jobs = [(kind, seed) for kind in faults.values() for seed in seeds]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(_twin, *zip(*jobs, strict=True)))


def induced_cases(folder: Path, channel: str) -> list[Case]:
    """Return the runs of suite D below a folder as seen through a channel, also those that did not fail."""
    return [Case(kind=pair.failure, alerts=_alerts(pair.failing), half=pair.half) for pair in pairs(folder, channel)]


def _authored_case(kind: str, seed: int) -> Case:
    run = make_fault(kind, seed)[0] if kind.startswith("fault/") else make_run(kind, seed)
    return Case(kind=kind, alerts=_alerts(run))


def _twin(kind: str, seed: int) -> Twin:
    return Twin(kind.partition("-")[0], opened_alerts(make_fault(kind, seed)[1].observations))


def _alerts(run: LabelledRun) -> list[AlertOpening]:
    return opened_alerts(run.observations, run.truth.onset or 0)
