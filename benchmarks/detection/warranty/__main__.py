"""``python -m benchmarks.detection.warranty``: simulates fleets under a warranty, and writes tables."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.detection.results_page.blocks import write_blocks
from benchmarks.detection.results_page.tables import Section, as_text
from benchmarks.detection.warranty.page_strengths import authored_pages, real_pages, recorded_pages
from benchmarks.detection.warranty.report import Plan, suite_section

RECORDINGS = Path(__file__).parents[3] / "docs"
# The folders of recordings whose settings were chosen because runs with them stay healthy. Runs of the other folders
# that survive were recorded to collapse, and drift without doing so.
HEALTHY = ("healthy", "healthy-cost")


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate the requested suites, print their tables, and write them."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    sections: dict[str, list[Section]] = {}
    if "a" in options.suite:
        pool = authored_pages(options.seeds, first=options.first, workers=options.workers)
        plan = Plan(learnt=100, played=20, steps_per_page=(25_000.0, 5_000.0), fleets=options.fleets)
        sections["a"] = [suite_section("Suite A: authored runs", pool, plan)]
    if "b" in options.suite:
        pool = recorded_pages(RECORDINGS, workers=options.workers)
        healthy = [run for run in pool if not run.is_healthy or Path(run.name).parent.name in HEALTHY]
        plan = Plan(learnt=45, played=10, steps_per_page=(20_000.0, 5_000.0), fleets=options.fleets)
        surviving = Plan(learnt=100, played=10, steps_per_page=(20_000.0, 5_000.0), fleets=options.fleets)
        sections["b"] = [
            suite_section("Suite B: healthy runs of the reference trainer", healthy, plan),
            suite_section("Suite B: every run that survives counted as healthy", pool, surviving),
        ]
    if options.corpus:
        pool = real_pages(options.corpus, workers=options.workers)
        plan = Plan(learnt=100, played=20, steps_per_page=(20_000.0, 5_000.0), fleets=options.fleets, by_source=True)
        sections["c"] = [suite_section("Suite C: real logs of language models", pool, plan)]
    if not sections:
        sys.stderr.write("nothing to simulate: name --suite a or b, or a folder of labelled logs with --corpus\n")
        return 2
    sys.stdout.write(as_text(section for found in sections.values() for section in found))
    if options.write:
        command = " ".join(["python -m benchmarks.detection.warranty", *given])
        write_blocks(options.write, command, sections, order=("a", "b", "c"))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection.warranty", description=__doc__)
    parser.add_argument(
        "--suite", action="append", choices=("a", "b"), default=[], help="suite to simulate; repeatable"
    )
    parser.add_argument("--corpus", type=Path, action="append", help="a folder of labelled real logs; repeatable")
    parser.add_argument("--seeds", type=int, default=12, help="authored seeds, each with every kind of run")
    parser.add_argument("--first", type=int, default=0, help="authored seeds to pass over")
    parser.add_argument("--fleets", type=int, default=10_000, help="fleets of each table")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, help="write the tables between the marks of this page")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
