"""``python -m benchmarks.detection``: which suites, how many runs, where the results go."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.detection import report_a, suite_a
from benchmarks.detection.tables import Section, as_markdown, as_text

__all__ = ["main"]

INTRODUCTION = """# Detection results

Written by `{command}`; do not edit. `docs/detection.md` explains the detectors, `benchmarks/detection` holds what
made these numbers. Suites are never pooled. An alarm counts where it opens: a warning is a finding of severity
warning or above, a page is critical. An alarm that opened before the onset is false and earns no lead; a miss is a
lead of 0. Leads are steps before the collapse T_c, the first step where the success rate lies under half of its
running maximum for good. EWU = mean clip((lead − 5)/35, 0, 1) − w · false alarms per 1,000 rows (w = 0.5 for
warnings, 5 for pages); never alarming is worth 0.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Score our engine beside baselines and peers, and print or write the tables."""
    options = _parser().parse_args(arguments)
    suites = options.suite or ["a"]
    sections: list[Section] = []
    numbers: dict[str, object] = {}
    if "a" in suites:
        authored = suite_a.collect(runs=options.runs, development=options.development, workers=options.workers)
        sections += report_a.sections(authored)
        numbers["a"] = suite_a.numbers(authored)
    sys.stdout.write(json.dumps(numbers, indent=1) + "\n" if options.json else as_text(sections))
    if options.write is not None:
        command = " ".join(["python -m benchmarks.detection", *(arguments or sys.argv[1:])])
        options.write.write_text(INTRODUCTION.format(command=command) + "\n" + as_markdown(sections))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection", description=__doc__)
    parser.add_argument("--suite", choices=("a", "b", "c"), action="append", help="suites to run; default: a")
    parser.add_argument("--runs", type=int, default=20, help="authored runs of each kind (default: 20; report: 200)")
    parser.add_argument("--development", action="store_true", help="use development seeds, as while building")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true", help="print numbers as JSON instead of tables")
    parser.add_argument("--write", type=Path, help="also write the tables to this Markdown file")
    return parser
