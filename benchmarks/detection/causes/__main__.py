"""``python -m benchmarks.detection.causes``: which suspect alerts name, where the cause of a failure is known."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.detection.authored.suite import chosen_seeds, generator_hash
from benchmarks.detection.causes.cases import authored_cases, induced_cases, twins
from benchmarks.detection.causes.openings import MOST_ROWS
from benchmarks.detection.causes.tables import alert_kinds, answers, cause_table, confusion, run_kinds, twin_table
from benchmarks.detection.command import BLOCKS, SUSPECTS, add_suite_a_options
from benchmarks.detection.induced.pairs import CHANNELS, Half
from benchmarks.detection.induced.record import RECORDINGS
from benchmarks.detection.results_page.blocks import write_blocks
from benchmarks.detection.results_page.tables import Section, Table, as_text
from benchmarks.detection.suites.suite_d import UNLISTED

__all__ = ["main"]

_NOTE = f"""The cause of a failing run of suites A and D is known, because it was set. The tables compare it with the
suspects of the run's alerts from the onset on. The first part named is the suspect of the first alert of any severity
whose suspect is not unknown. Most alerts: the suspect of most alerts that open within {MOST_ROWS} rows. An alert names
the instrument where another open alert makes its numbers doubtful, as its reader is told. A failure with two right
answers counts as right with either. Intervals are exact, 95 %; they are about further seeds of these failures, and not
about other failures. The shares are no rates of the field: how many runs a part has here was chosen."""

_NOTE_A = """Generator {generator}, {which} seeds {first} to {last}. A name such as `fault/rate_rise-10` ends in its
level. Faults have no collapse of their own, and no lead is measured on them."""

_NOTE_D = """All pairs count, also those that lost no quality: their cause was set too. Rules and suspects were chosen
on the open seeds. The others are counted, and those that `suite d` does not list are not listed by failure here. No
failure of suite D begins in the policy, so that every alert whose suspect is the policy is wrong there."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare suspects with causes, and print or write the tables."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    seeds = chosen_seeds(runs=options.runs, first=options.first, development=options.development)
    sections = [
        Section(title="Suspects against known causes", notes=[_NOTE], tables=[cause_table()]),
        _authored(seeds, options.workers, which="development" if options.development else "test"),
        _induced(options.induced),
    ]
    sys.stdout.write(as_text(sections))
    if options.write is not None:
        command = " ".join(["python -m benchmarks.detection.causes", *given])
        write_blocks(options.write, command, {SUSPECTS: sections}, order=BLOCKS)
    return 0


def _authored(seeds: range, workers: int, *, which: str) -> Section:
    cases = authored_cases(seeds, workers=workers)
    note = _NOTE_A.format(generator=generator_hash(), which=which, first=seeds.start, last=seeds.stop - 1)
    tables = [
        *confusion(cases, "Suite A"),
        run_kinds(cases, "Suite A by kind"),
        alert_kinds(cases, f"Suite A: kinds of alerts that open within {MOST_ROWS} rows of the onset"),
        twin_table(twins(seeds, workers=workers)),
    ]
    return Section(title="Suspects in suite A", notes=[note], tables=tables)


def _induced(folder: Path) -> Section:
    tables: list[Table] = []
    for channel in CHANNELS:
        cases = induced_cases(folder, channel)
        if not cases:
            continue
        known, unseen = ([case for case in cases if (case.half is Half.OPEN) is is_open] for is_open in (True, False))
        listed = [case for case in cases if case.half not in UNLISTED]
        tables += [
            answers(cases, f"Suite D, {channel}, by part of the recordings", lambda case: str(case.half)),
            *confusion(unseen, f"Suite D, {channel}, without the open seeds"),
            run_kinds(listed, f"Suite D, {channel}, open seeds and unseen causes"),
            alert_kinds(known, f"Suite D, {channel}, open seeds: kinds of alerts within {MOST_ROWS} rows"),
            alert_kinds(unseen, f"Suite D, {channel}, without the open seeds: kinds of alerts within {MOST_ROWS} rows"),
        ]
    return Section(title="Suspects in suite D", notes=[_NOTE_D], tables=tables)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection.causes", description=__doc__)
    add_suite_a_options(parser)
    parser.add_argument("--induced", type=Path, default=RECORDINGS, help=f"suite d (default: {RECORDINGS})")
    parser.add_argument("--write", type=Path, help="also write the tables to this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
