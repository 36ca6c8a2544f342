"""``python -m benchmarks.detection``: which suites, how many runs, where the results go."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.detection import report_a, suite_a, suite_b, suite_c, suite_d
from benchmarks.detection.curves import curve, picture
from benchmarks.detection.induced.record import RECORDINGS as INDUCED
from benchmarks.detection.tables import Section, as_markdown, as_text
from benchmarks.detection.workers import Traces

__all__ = ["main", "write_blocks"]

PEERS = Path(".venv/peers/bin/python")
RECORDINGS = Path("docs/experiments")
LEVELS = {"warn": "Warnings", "page": "Pages"}
UNDRAWN = ("never", "always")
# The peers take hours, so that suite A beside them stands apart from suite A alone, and both stay on the page.
BESIDE_PEERS = "a beside peers"
BLOCKS = ("a", BESIDE_PEERS, "b", "c", "priors", "d")
_BEGIN, _END = "<!-- suite {} -->", "<!-- end -->"

INTRODUCTION = """# Detection results

This page shows how early the detectors alarm on failing runs, and how often on healthy ones. `make bench-detection`
writes it. Each suite ends with the command that printed it; do not edit the tables.

| suite | runs | purpose |
|---|---|---|
| A | authored: a generator with a known truth | leads and false alarms of every failure, on many runs |
| B | recorded runs of the reference trainer | failures that emerge in training; no rule was chosen on them |
| C | logs of real runs from public repositories | false alarms and misses in the field, on a trainer's own metrics |
| D | failures induced in TRL, each with a healthy twin | known onsets, sudden to slow, in another's trainer |

**How to read the tables.** The suites are never pooled. A warning is a finding of severity warning or above; a page is
a critical finding. An alarm counts at the step at which it opens. An alarm that opens before the onset of the failure
is false and earns no lead. A miss counts as a lead of 0. The lead is the number of steps from the alarm to the collapse
T_c, which is the first step at which the success rate lies under half of its running maximum for good. The
early-warning utility is EWU = mean clip((lead − 5) / 35, 0, 1) − w · false alarms per 1,000 rows, with w = 0.5 for
warnings and 5 for pages; a candidate that never alarms has an EWU of 0. Peers run at their defaults, in their own
environment.

**Which data are a test.** The test seeds of suite A begin at 7,000,000. Seeds from 1,000,000 to 6,999,999 were
reported or inspected before, so numbers on them are not a test any more. The rules of suite C were chosen on open logs
by leaving one repository out; hidden logs are scored by those who hold them. No rule was chosen on suite B, nor on the
unseen seeds, causes and trainer of suite D. Suite B was looked at for the false alarms of the rules that `builtin-10`
added, and its misses under `builtin-11` were known when the rules of `builtin-12` were made, on runs of other seeds.

**Which rules.** Suite A alone and suites B and D were scored with `builtin-12`, suite C with `builtin-10`. Suite A
beside its peers, with the curves, was scored with `builtin-7`, because 96 runs of each kind beside the peers take
hours. `builtin-11` adds detectors of garbled responses and of the order of advantages. They change no finding in
suites B and C (`python -m benchmarks.detection.difference`); [detectors/garbled_text.md](detectors/garbled_text.md)
has the results of the first, whose authored and recorded runs stand beside suite A. `builtin-12` adds a form of the
death spiral that needs the paired channel, and measures stale responses by what two batches had. Neither changes an
alarm in suite C, whose logs have neither.

**Secondary measures.** NAB is the score of the Numenta Anomaly Benchmark with its standard weights: 0 for never
alarming, 100 for an alarm at every onset. It counts a false alarm only lightly (0.11 each). VUS-PR ranks rows from
onset to collapse against all other rows, over all thresholds and buffers of 0 to 40 steps. A candidate gives no score
to rows below its own threshold, so those rows are tied, and never alarming has the share of anomalous rows as its
score. VUS-PR does not measure lead.

"""


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
        sections["a" if options.peers is None else BESIDE_PEERS] = report_a.sections(authored)
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
        write_blocks(options.write, " ".join(["python -m benchmarks.detection", *given]), sections, drawn)
    return 0


def write_blocks(page: Path, command: str, sections: Mapping[str, Sequence[Section]], drawn: Traces) -> None:
    """Write the suites that ran into the page, leaving the others as they stand, and the curves beside it."""
    before = page.read_text() if page.exists() else ""
    blocks = {suite: _block(before, suite) for suite in BLOCKS}
    images = ""
    for level, title in LEVELS.items() if drawn else ():
        curves = {name: curve(traces, level) for name, traces in drawn.items() if name not in UNDRAWN}
        image = page.with_name(f"{page.stem}-{level}.svg")
        image.write_text(picture(f"{title}: lead against false alarms, suite A", curves))
        images += f"![{title}: lead against false alarms]({image.name})\n\n"
    for suite, found in sections.items():
        pictures = images if suite == BESIDE_PEERS else ""
        blocks[suite] = f"{_BEGIN.format(suite)}\n\n{pictures}{as_markdown(found)}\nPrinted by `{command}`.\n\n{_END}\n"
    page.write_text(INTRODUCTION + "\n".join(block for block in blocks.values() if block))


def _block(text: str, suite: str) -> str:
    """Return what a page holds of a suite, markers included."""
    _, begin, rest = text.partition(_BEGIN.format(suite))
    return begin + rest.partition(_END)[0] + _END + "\n" if begin else ""


def _corpora(folders: list[Path] | None) -> list[Path]:
    if not folders:
        raise SystemExit("suite c needs a folder of labelled logs; give it with --corpus FOLDER")
    return folders


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection", description=__doc__)
    parser.add_argument(
        "--suite", choices=("a", "b", "c", "d"), action="append", help="a suite to run, repeatable; default: a"
    )
    parser.add_argument("--runs", type=int, default=20, help="suite a: runs of each kind (default: 20)")
    parser.add_argument("--first", type=int, default=0, help="suite a: seeds to pass over, for a fresh look")
    parser.add_argument("--development", action="store_true", help="suite a: development seeds, as while building")
    parser.add_argument("--workers", type=int, default=1, help="suite a: processes")
    parser.add_argument(
        "--kept", type=Path, help="suite a: folder that keeps what is done, so that an interrupted suite continues"
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
    parser.add_argument("--no-peers", dest="peers", action="store_const", const=None, help="leave the peers out")
    parser.add_argument("--json", action="store_true", help="print numbers as JSON instead of tables")
    parser.add_argument("--write", type=Path, help="also write the tables to this Markdown file, and curves beside it")
    return parser
