"""Runs through candidates, over processes, with progress on standard error."""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

from benchmarks.detection.authored import make_run, make_twins
from benchmarks.detection.baselines import baselines
from benchmarks.detection.engine import engines
from benchmarks.detection.runs import LabelledRun
from benchmarks.detection.traces import Candidate, Trace

__all__ = ["Traces", "authored_traces", "trace_run", "twin_traces"]

Traces = dict[str, list[Trace]]  # by candidate
Job = tuple[str, int]  # kind or twin, seed

PROGRESS_SECONDS = 20.0


def trace_run(run: LabelledRun, candidates: Sequence[Candidate]) -> Traces:
    """Return the trace of each candidate on a run."""
    steps = [observation.step for observation in run.observations]
    return {
        candidate.name: [Trace.of(run.name, run.truth, steps, candidate.replay(run.observations))]
        for candidate in candidates
    }


def authored_traces(kinds: Sequence[str], seeds: Sequence[int], *, workers: int) -> Traces:
    """Make every kind with every seed, and return the traces of our engine and the baselines."""
    return _collect(_authored_job, [(kind, seed) for seed in seeds for kind in kinds], workers)


def twin_traces(twin: str, seeds: Sequence[int], *, workers: int) -> Traces:
    """Make matched pairs, and return the traces of our engine and the baselines: dying, living, dying, living, …."""
    return _collect(_twin_job, [(twin, seed) for seed in seeds], workers)


def _authored_job(job: Job) -> Traces:
    return trace_run(make_run(*job), _candidates())


def _twin_job(job: Job) -> Traces:
    dead, alive = (trace_run(run, _candidates()) for run in make_twins(*job))
    return {name: dead[name] + alive[name] for name in dead}


def _candidates() -> list[Candidate]:
    return [*engines(), *baselines()]


def _collect(work: Callable[[Job], Traces], jobs: Sequence[Job], workers: int) -> Traces:
    collected: Traces = {}
    begin = shown = time.monotonic()
    with ProcessPoolExecutor(workers) as pool:
        results = map(work, jobs) if workers == 1 else pool.map(work, jobs, chunksize=4)
        for done, traces in enumerate(results, start=1):
            for name, found in traces.items():
                collected.setdefault(name, []).extend(found)
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                left = (shown - begin) / done * (len(jobs) - done)
                sys.stderr.write(f"{done} of {len(jobs)} runs, about {left / 60:.0f} min left\n")
                sys.stderr.flush()
    return collected
