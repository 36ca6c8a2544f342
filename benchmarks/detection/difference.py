"""``python -m benchmarks.detection.difference``: on how many runs of suites A to D a detector changes a finding.

Each run that holds the detector's signals is replayed by the engine with the detector and without it. Only the open
seeds of suite D are read.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.detection.authored.suite import (
    DEVELOPMENT_SEEDS,
    benign_kinds,
    displacement_kinds,
    failure_kinds,
    make_run,
)
from benchmarks.detection.induced.pairs import CHANNELS, Half, pairs
from benchmarks.detection.induced.record import RECORDINGS
from benchmarks.detection.results_page.tables import Section, Table, as_text
from benchmarks.detection.runs import LabelledRun
from benchmarks.detection.suites.real_logs.corpus import labelled_corpus
from benchmarks.detection.suites.recordings import recordings
from monitor_server.detection.base_classes.detector import DetectorGroup
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation, Severity
from monitor_server.detection.registry import DETECTORS

__all__ = ["engine_without", "findings", "main"]

NEWEST = ("constant_likelihood", "unmasked_feedback")  # of builtin-13
HEADER = (
    "detector",
    "suite",
    "runs",
    "rows",
    "runs that the detector reads",
    "runs with other findings",
    "of them newly warned",
)
Findings = list[tuple[int, str, Severity]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection.difference", description=__doc__)
    parser.add_argument("--corpus", type=Path, action="append", default=[], help="folder of labelled logs, repeatable")
    parser.add_argument("--runs", type=int, default=4, help="suite a: development runs of each kind (default: 4)")
    parser.add_argument("--detector", action="append", choices=DETECTORS, help="default: the newest")
    options = parser.parse_args(arguments)
    kinds = [*benign_kinds(), *displacement_kinds(), *failure_kinds()]
    suites: dict[str, Sequence[LabelledRun]] = {
        "A, authored": [make_run(kind, seed) for kind in kinds for seed in DEVELOPMENT_SEEDS[: options.runs]],
        "B, reference trainer": recordings(Path("docs/experiments")),
        "D, induced in TRL, open seeds": [
            run
            for channel in CHANNELS
            for pair in pairs(RECORDINGS, channel)
            if pair.half is Half.OPEN
            for run in (pair.failing, pair.healthy)
        ],
    }
    if options.corpus:
        suites["C, real logs"] = labelled_corpus(*options.corpus)
    rows = [_row(detector, name, runs) for detector in options.detector or NEWEST for name, runs in suites.items()]
    table = Table(title="With the detector and without it", header=HEADER, rows=rows)
    sys.stdout.write(as_text([Section(title="What a detector changes", tables=[table])]))
    return 0


def engine_without(name: str) -> Engine:
    """Return a fresh engine that lacks one detector which no other reads."""
    engine = Engine()
    del engine._detectors[name]  # noqa: SLF001 - no user needs an engine without a detector
    engine._group = DetectorGroup(engine._detectors.values())  # noqa: SLF001
    return engine


def findings(engine: Engine, observations: Iterable[Observation]) -> Findings:
    """Return every finding of a run: step, kind and severity."""
    return [(row.step, each.kind, each.severity) for row in observations for each in engine.update(row).findings]


def _row(detector: str, name: str, runs: Sequence[LabelledRun]) -> list[str]:
    total = rows = read = changed = newly = 0
    for run in runs:
        total, rows = total + 1, rows + len(run.observations)
        if not any(signal in row.signals for row in run.observations for signal in DETECTORS[detector].reads):
            continue
        read += 1
        found, before = findings(Engine(), run.observations), findings(engine_without(detector), run.observations)
        changed += found != before
        newly += _warns(found) and not _warns(before)
    return [detector, name, str(total), f"{rows:,}", str(read), str(changed), str(newly)]


def _warns(found: Findings) -> bool:
    return any(severity is not Severity.INFO for _, _, severity in found)


if __name__ == "__main__":
    sys.exit(main())
