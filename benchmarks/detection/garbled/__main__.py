"""``python -m benchmarks.detection.garbled``: print the tables of docs/detectors/garbled_text.md."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.detection.garbled.loops import compare
from benchmarks.detection.garbled.record import RECORDINGS
from benchmarks.detection.garbled.report import authored, recorded
from benchmarks.detection.results_page.tables import Section, as_markdown, as_text

# The rule was fitted on seeds from 0 on and on the recordings of even seeds.
REPORTED_FROM = 9_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection.garbled", description=__doc__)
    parser.add_argument("--first", type=int, default=REPORTED_FROM, help=f"first authored seed ({REPORTED_FROM})")
    parser.add_argument("--runs", type=int, default=30, help="authored runs of each kind (default: 30)")
    parser.add_argument(
        "--development",
        action="store_true",
        help="use the development data: seeds from 0 on, and recordings of even seeds",
    )
    parser.add_argument("--folder", type=Path, default=RECORDINGS, help=f"recordings (default: {RECORDINGS})")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    options = parser.parse_args(arguments)
    first = 0 if options.development else options.first
    seeds = sorted(int(path.name.removeprefix("seed").split(".")[0]) for path in options.folder.glob("seed*.jsonl.gz"))
    chosen = [seed for seed in seeds if seed % 2 == (0 if options.development else 1)]
    tables = authored(first, options.runs) + (recorded(options.folder, chosen) if chosen else [])
    tables.append(compare())
    section = Section(title="Garbled responses", tables=tables)
    sys.stdout.write((as_markdown if options.markdown else as_text)([section]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
