"""Suite A: runs every candidate over the authored runs, and gives the scores as numbers."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.detection.authored.suite import (
    benign_kinds,
    chosen_seeds,
    displacement_kinds,
    failure_kinds,
    generator_hash,
    make_run,
)
from benchmarks.detection.candidates.baselines import random_trace
from benchmarks.detection.candidates.engine import (
    ENGINE,
    ENGINE_STANDARD,
    duplicate_mismatches,
    restart_mismatches,
)
from benchmarks.detection.candidates.peers import peer_traces
from benchmarks.detection.candidates.workers import Traces, authored_traces, twin_traces
from benchmarks.detection.scoring.alarms import false_alarms
from benchmarks.detection.scoring.phases import score_phases
from benchmarks.detection.scoring.scores import misses, score_level, twin_auroc
from benchmarks.detection.scoring.traces import LEVELS, Trace

__all__ = ["AuthoredSuite", "collect", "numbers"]

TWINS = ("exploring", "harder_prompts")
FAILURE_SHARE = 0.5  # failures are scored on half as many runs a kind, twins too
PEER_RUNS = 20  # a kind; peers take a second a run
PROBE_EVERY = 3  # kinds; each probe is replayed five times over


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoredSuite:
    """The traces of all candidates on suite A."""

    seeds: range
    runs: Traces
    twins: dict[str, Traces]
    probes: int
    restart_mismatches: int
    duplicate_mismatches: int


def collect(
    *, runs: int, first: int = 0, development: bool, workers: int, peers: Path | None = None, kept: Path | None = None
) -> AuthoredSuite:
    """Run every candidate over suite A.

    Args:
        runs: Runs of each benign and displacement kind; half as many of each other failure and of each twin.
        first: Seeds to pass over: detectors fit the seeds they were developed on.
        development: Whether to use development seeds; the test seeds are for reported numbers.
        workers: Processes.
        peers: Interpreter of the peers' environment; they see the first `PEER_RUNS` seeds. None leaves them out.
        kept: Folder in which the traces of each run are kept, so that an interrupted suite continues where it was.
    """
    seeds = chosen_seeds(runs=runs, first=first, development=development)
    fewer = seeds[: max(1, round(runs * FAILURE_SHARE))]
    traces = authored_traces([*benign_kinds(), *displacement_kinds()], seeds, workers=workers, kept=kept)
    for name, found in authored_traces(failure_kinds(), fewer, workers=workers, kept=kept).items():
        traces[name].extend(found)
    traces["random, our rate"] = _random(traces[ENGINE])
    if peers is not None:
        seen = [make_run(kind, s) for s in seeds[:PEER_RUNS] for kind in (*benign_kinds(), *displacement_kinds())]
        traces |= peer_traces(peers, seen)
    kinds = [*benign_kinds(), *displacement_kinds(), *failure_kinds()]
    probes = [make_run(kind, seeds[0]) for kind in kinds[::PROBE_EVERY]]
    return AuthoredSuite(
        seeds=seeds,
        runs=traces,
        twins={twin: twin_traces(twin, fewer, workers=workers, kept=kept) for twin in TWINS},
        probes=len(probes),
        restart_mismatches=restart_mismatches(probes),
        duplicate_mismatches=duplicate_mismatches(probes),
    )


def numbers(suite: AuthoredSuite) -> dict[str, object]:
    """Return the scores of suite A as JSON values."""
    return {
        "generator": generator_hash(),
        "seeds": [suite.seeds.start, suite.seeds.stop],
        "candidates": {
            name: {level: asdict(score_level(traces, level)) for level in LEVELS} for name, traces in suite.runs.items()
        },
        "phases": {
            name: asdict(score) for name, traces in suite.runs.items() if (score := score_phases(traces)) is not None
        },
        "twins_auroc": {
            f"{twin}, until {until}": {name: twin_auroc(pairs, until=until) for name, pairs in found.items()}
            for twin, found in suite.twins.items()
            for until in ("acceleration", "collapse")
        },
        "misses": {
            name: [asdict(miss) for level in LEVELS for miss in misses(suite.runs[name], level)]
            for name in (ENGINE, ENGINE_STANDARD)
        },
        "probes": suite.probes,
        "restart_mismatches": suite.restart_mismatches,
        "duplicate_mismatches": suite.duplicate_mismatches,
    }


def _random(traces: Sequence[Trace]) -> list[Trace]:
    """Return random alarms with the frequency of our engine's alarms on benign rows."""
    warn, page = (false_alarms(traces, level).rate / 1000.0 for level in LEVELS)
    return [random_trace(trace, warn_rate=warn, page_rate=page) for trace in traces]
