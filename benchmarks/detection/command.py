"""``python -m benchmarks.detection``: the command line with its suites, numbers of runs, and result files."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.detection.candidates.workers import Traces
from benchmarks.detection.induced.record import RECORDINGS as INDUCED
from benchmarks.detection.results_page.blocks import Picture, write_blocks
from benchmarks.detection.results_page.tables import Section, as_text
from benchmarks.detection.scoring.curves import curve, picture
from benchmarks.detection.suites import suite_a, suite_a_report, suite_b, suite_d
from benchmarks.detection.suites.real_logs import suite_c

__all__ = ["BLOCKS", "CADENCES", "SUSPECTS", "add_suite_a_options", "main"]

PEERS = Path(".venv/peers/bin/python")
RECORDINGS = Path("docs/experiments")
LEVELS = {"warn": "Warnings", "page": "Pages"}
UNDRAWN = ("never", "always")
# Suite A with the peers takes hours. The page therefore keeps it in a separate block beside suite A alone.
BESIDE_PEERS = "a beside peers"
SUSPECTS = "suspects"
CADENCES = "cadences"
BLOCKS = ("a", BESIDE_PEERS, CADENCES, "b", "c", "leave one out", "priors", "fixed bounds", "d", SUSPECTS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Score our engine beside baselines and peers, and print or write the tables."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    suites = sorted(set(options.suite or ["a"]))
    sections: dict[str, list[Section]] = {}
    numbers: dict[str, object] = {}
    drawn: Traces = {}
    if "a" in suites:
        authored = suite_a.collect(
            runs=options.runs,
            first=options.first,
            development=options.development,
            workers=options.workers,
            peers=options.peers,
            kept=options.kept,
        )
        sections["a" if options.peers is None else BESIDE_PEERS] = suite_a_report.sections(authored)
        numbers["a"] = suite_a.numbers(authored)
        drawn = authored.runs if options.peers is not None else {}
    if "b" in suites:
        recorded = suite_b.collect(options.recordings, options.peers)
        sections["b"] = [suite_b.section(recorded)]
        numbers["b"] = suite_b.numbers(recorded)
    if "c" in suites:
        logs = suite_c.collect(_corpora(options.corpus), options.peers)
        sections["c"] = [suite_c.section(logs)]
        numbers["c"] = suite_c.numbers(logs)
    if "d" in suites:
        induced = suite_d.collect(options.induced)
        sections["d"] = [suite_d.section(induced)]
        numbers["d"] = suite_d.numbers(induced)
    if options.json:
        sys.stdout.write(json.dumps(numbers, indent=1) + "\n")
    else:
        sys.stdout.write(as_text(section for found in sections.values() for section in found))
    if options.write is not None:
        command = " ".join(["python -m benchmarks.detection", *given])
        pictures = {BESIDE_PEERS: _curves(drawn)}
        write_blocks(options.write, command, sections, order=BLOCKS, pictures=pictures)
    return 0


def _curves(drawn: Traces) -> list[Picture]:
    """Return the curves of suite A beside its peers, one picture for each level."""
    if not drawn:
        return []
    shown = {name: traces for name, traces in drawn.items() if name not in UNDRAWN}
    return [
        Picture(
            name=level,
            text=f"{title}: lead against false alarms",
            svg=picture(
                f"{title}: lead against false alarms, suite A",
                {name: curve(traces, level) for name, traces in shown.items()},
            ),
        )
        for level, title in LEVELS.items()
    ]


def _corpora(folders: list[Path] | None) -> list[Path]:
    if not folders:
        raise SystemExit("suite c needs a folder of labelled logs; give it with --corpus FOLDER")
    return folders


def add_suite_a_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the authored runs."""
    parser.add_argument("--runs", type=int, default=20, help="suite a: runs of each kind (default: 20)")
    parser.add_argument("--first", type=int, default=0, help="suite a: number of seeds to skip")
    parser.add_argument("--development", action="store_true", help="suite a: use the development seeds")
    parser.add_argument("--workers", type=int, default=1, help="suite a: processes")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection", description=__doc__)
    parser.add_argument(
        "--suite", choices=("a", "b", "c", "d"), action="append", help="a suite to run, repeatable; default: a"
    )
    add_suite_a_options(parser)
    parser.add_argument(
        "--kept", type=Path, help="suite a: folder of finished runs, from which an interrupted suite continues"
    )
    parser.add_argument("--recordings", type=Path, default=RECORDINGS, help=f"suite b (default: {RECORDINGS})")
    parser.add_argument("--induced", type=Path, default=INDUCED, help=f"suite d (default: {INDUCED})")
    parser.add_argument("--corpus", type=Path, action="append", help="suite c: folder of labelled logs, repeatable")
    parser.add_argument(
        "--peers",
        type=Path,
        default=PEERS if PEERS.exists() else None,
        help=f"interpreter with requirements/peers.txt installed (default: {PEERS} if it is there)",
    )
    parser.add_argument("--no-peers", dest="peers", action="store_const", const=None, help="do not measure the peers")
    parser.add_argument("--json", action="store_true", help="print numbers as JSON instead of tables")
    parser.add_argument("--write", type=Path, help="also write the tables to this Markdown file, and curves beside it")
    return parser
