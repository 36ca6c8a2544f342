"""The runs that an experiment needs: every arm, setting and hypothesis with its seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.experiments.arms import configure_arm
from trainer_hooks.reference.experiments.healthy_runs import HEALTHY, HEALTHY_SEEDS
from trainer_hooks.reference.experiments.hypotheses import HYPOTHESES, MORE_SEEDS, PROMISING, SEARCH_SEEDS
from trainer_hooks.reference.experiments.rollback_runs import RESCUES

__all__ = ["RECORDED_STEPS", "Job", "arm_jobs", "healthy_cost_jobs", "healthy_jobs", "rescue_jobs", "search_jobs"]

RECORDED_STEPS = {"demo": 200}
"""The steps for which a preset's arms are recorded, where that is more than its own: over twice the uncured life."""

STEPS_AFTER_COLLAPSE = 40
"""Steps to record after a collapse: enough to see that the run does not recover."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run to record: its settings, the file of its recording, and the options of `run_recording.record`.

    Attributes:
        is_watched: Whether it runs under a collector and acts on its verdict (`rollback_runs.rescue`).
    """

    config: Config
    path: Path
    after_collapse: int | None = None
    fixed: bool = False
    is_watched: bool = False


def arm_jobs(base: Config, arms: Iterable[str], seeds: Sequence[int], folder: Path) -> list[Job]:
    """List every seed of every arm, seed by seed, so that an interruption leaves as many runs of each arm."""
    names = list(arms)
    return [
        Job(
            configure_arm(base, arm, seed),
            folder / f"{arm}-seed{seed}.jsonl.gz",
            after_collapse=STEPS_AFTER_COLLAPSE,
            fixed=True,
        )
        for seed in seeds
        for arm in names
    ]


def healthy_jobs(cache: Path, folder: Path) -> list[Job]:
    """List the healthy runs, one seed of every setting before the next; they are never stopped."""
    jobs = []
    for turn in zip(*HEALTHY_SEEDS.values(), strict=True):
        for name, seed in zip(HEALTHY, turn, strict=True):
            jobs.append(Job(Config(**HEALTHY[name], seed=seed, cache=cache), folder / f"{name}-seed{seed}.jsonl.gz"))
    return jobs


def healthy_cost_jobs(cache: Path, arms: Iterable[str], seeds: Sequence[int], folder: Path) -> list[Job]:
    """List every seed of every arm on the first of the healthy settings; they are never stopped."""
    base = Config(**HEALTHY["plain"], cache=cache)
    return [replace(job, after_collapse=None, fixed=False) for job in arm_jobs(base, arms, seeds, folder)]


def search_jobs(cache: Path, folder: Path) -> list[Job]:
    """List the runs of the search for a slow phase II: one seed of every setting before the next."""
    planned = [(seed, name) for seed in SEARCH_SEEDS for name in HYPOTHESES]
    planned += [(seed, name) for seed in MORE_SEEDS for name in PROMISING]
    return [
        Job(
            Config(**HYPOTHESES[name], seed=seed, cache=cache),
            folder / f"{name}-seed{seed}.jsonl.gz",
            after_collapse=STEPS_AFTER_COLLAPSE,
            fixed=True,
        )
        for seed, name in planned
    ]


def rescue_jobs(base: Config, arms: Iterable[str], seeds: Sequence[int], folder: Path) -> list[Job]:
    """List every seed of every rescue.

    Raises:
        ValueError: If an arm is not one of `RESCUES`.
    """
    arms = list(arms)
    if unknown := [arm for arm in arms if arm not in RESCUES]:
        raise ValueError(f"an arm of rescue must be one of {', '.join(RESCUES)}, got {', '.join(unknown)}")
    return [
        Job(replace(base, seed=seed, **RESCUES[name]), folder / f"{name}-seed{seed}.jsonl.gz", is_watched=True)
        for name in arms
        for seed in seeds
    ]
