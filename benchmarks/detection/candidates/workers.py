"""Reads runs with all candidates, in several processes. Finished runs can be kept, so that a suite can be resumed."""

import functools
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.detection.authored.suite import generator_hash, make_run, make_twins
from benchmarks.detection.candidates.baselines import baselines
from benchmarks.detection.candidates.engine import engines
from benchmarks.detection.runs import LabelledRun
from benchmarks.detection.scoring.traces import Candidate, Trace
from monitor_server.configuration_files.writing import open_for_writing
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION

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


def authored_traces(kinds: Sequence[str], seeds: Sequence[int], *, workers: int, kept: Path | None = None) -> Traces:
    """Make every kind with every seed, and return the traces of our engine and the baselines.

    Args:
        kinds: The kinds of the authored runs.
        seeds: The seeds of each kind.
        workers: The number of processes.
        kept: Folder in which the traces of each run are kept, so that an interrupted call can be continued. They
            belong to one set of detectors and one generator. None keeps nothing.
    """
    return _collect(_authored_job, [(kind, seed) for seed in seeds for kind in kinds], workers, kept)


def twin_traces(twin: str, seeds: Sequence[int], *, workers: int, kept: Path | None = None) -> Traces:
    """Make matched pairs, and return the traces of our engine and the baselines: dying, living, dying, living, …."""
    return _collect(_twin_job, [(twin, seed) for seed in seeds], workers, kept)


def _authored_job(job: Job) -> Traces:
    return trace_run(make_run(*job), _candidates())


def _twin_job(job: Job) -> Traces:
    dead, alive = (trace_run(run, _candidates()) for run in make_twins(*job))
    return {name: dead[name] + alive[name] for name in dead}


def _resumed(work: Callable[[Job], Traces], folder: Path, job: Job) -> Traces:
    """Return the traces that were kept for a job, or do it and keep them."""
    name, seed = job
    path = folder / f"{work.__name__.strip('_')}-{name.replace('/', '-')}-{seed}.pickle"
    if path.exists():
        found: Traces = pickle.loads(path.read_bytes())  # noqa: S301 - this module wrote it
        return found
    traces = work(job)
    with open_for_writing(path) as stream:
        pickle.dump(traces, stream)
    return traces


def _candidates() -> list[Candidate]:
    return [*engines(), *baselines()]


def _collect(work: Callable[[Job], Traces], jobs: Sequence[Job], workers: int, kept: Path | None) -> Traces:
    if kept is not None:
        folder = kept / f"{DETECTOR_VERSION}-{generator_hash()}"
        folder.mkdir(parents=True, exist_ok=True)
        work = functools.partial(_resumed, work, folder)
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
