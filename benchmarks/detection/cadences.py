"""``python -m benchmarks.detection.cadences``: suite A with signals that arrive at different cadences.

Many trainers measure the reward in every step, likelihoods in every second one to save time, and a held-out set in
every tenth one. The runs of suite A are scored three times: as they are, with the likelihood side in every second row,
and with what is measured on held-out responses in every tenth row as well. A run, its noise and its truth are the same
each time.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.detection.authored.observe import PAIRED
from benchmarks.detection.authored.suite import (
    benign_kinds,
    chosen_seeds,
    displacement_kinds,
    failure_kinds,
    generator_hash,
    make_run,
)
from benchmarks.detection.candidates.engine import ENGINE, ENGINE_STANDARD, engines
from benchmarks.detection.candidates.workers import Traces, trace_run
from benchmarks.detection.command import BLOCKS, CADENCES, add_suite_a_options
from benchmarks.detection.results_page.blocks import write_blocks
from benchmarks.detection.results_page.tables import Section, Table, as_text, interval, percent
from benchmarks.detection.runs import Group, LabelledRun
from benchmarks.detection.scoring.alarms import false_alarms, leads
from benchmarks.detection.scoring.scores import SLACK_STEPS, caught_by
from benchmarks.detection.scoring.traces import LEVELS, Trace

__all__ = ["AS_AUTHORED", "HALF", "MIXED", "main", "thin"]

AS_AUTHORED, HALF, MIXED = "each row", "second rows", "second and tenth rows"
LIKELIHOOD_SIDE = ("likelihood/", "entropy/", "ratio/", "mismatch/", "kl/")  # beginnings of names
HELD_OUT = frozenset({"reward/correct_frac", PAIRED})
ROWS = {AS_AUTHORED: (1, 1), HALF: (2, 2), MIXED: (2, 10)}  # of the likelihood side and of what is held out

_NOTE = """All {kinds} kinds of suite A, {runs} runs of each, and half as many of each other failure, at three cadences.
Generator {generator}, {which} seeds {first} to {last}. The likelihood side are the signals whose names begin with
{side}, and {held} are held out. *{half}*: both are in the rows whose step is divisible by 2. *{mixed}*: what is held
out is in the rows whose step is divisible by 10. All other signals are in each row. The rows of a run, their noise and
their truth are the same at each cadence. No rule was chosen on these runs. Intervals are exact, 95 %."""


def thin(run: LabelledRun, cadence: str) -> LabelledRun:
    """Return a run with each signal in the rows in which it is measured at a cadence of `ROWS`.

    >>> from benchmarks.detection.authored.suite import make_run
    >>> rows = thin(make_run("benign/healthy", 0), MIXED).observations
    >>> [[name in row.signals for row in rows[:11]].count(True) for name in ("reward/mean", "entropy/mean", PAIRED)]
    [11, 6, 2]
    """
    likelihood_side, held_out = ROWS[cadence]

    def is_measured(name: str, step: int) -> bool:
        every = held_out if name in HELD_OUT else likelihood_side if name.startswith(LIKELIHOOD_SIDE) else 1
        return step % every == 0

    rows = [
        replace(row, signals={name: value for name, value in row.signals.items() if is_measured(name, row.step)})
        for row in run.observations
    ]
    return replace(run, observations=rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Score the cadences, and print or write the tables."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    seeds = chosen_seeds(runs=options.runs, first=options.first, development=options.development)
    fewer = seeds[: (len(seeds) + 1) // 2]
    jobs = [(kind, seed) for kind in (*benign_kinds(), *displacement_kinds()) for seed in seeds]
    jobs += [(kind, seed) for kind in failure_kinds() for seed in fewer]
    found = {cadence: _traces(jobs, cadence, options.workers) for cadence in ROWS}
    section = _section(found, seeds, which="development" if options.development else "test")
    sys.stdout.write(as_text([section]))
    if options.write is not None:
        command = " ".join(["python -m benchmarks.detection.cadences", *given])
        write_blocks(options.write, command, {CADENCES: [section]}, order=BLOCKS)
    return 0


def _traces(jobs: Sequence[tuple[str, int]], cadence: str, workers: int) -> Traces:
    collected: Traces = {}
    with ProcessPoolExecutor(workers) as pool:
        for traces in pool.map(partial(_trace, cadence), jobs, chunksize=4):
            for name, found in traces.items():
                collected.setdefault(name, []).extend(found)
    return collected


def _trace(cadence: str, job: tuple[str, int]) -> Traces:
    return trace_run(thin(make_run(*job), cadence), engines())


def _section(found: Mapping[str, Traces], seeds: range, *, which: str) -> Section:
    note = _NOTE.format(
        kinds=len(benign_kinds()) + len(displacement_kinds()) + len(failure_kinds()),
        runs=len(seeds),
        generator=generator_hash(),
        which=which,
        first=seeds.start,
        last=seeds.stop - 1,
        side=", ".join(f"`{name}`" for name in LIKELIHOOD_SIDE),
        half=HALF,
        mixed=MIXED,
        held=" and ".join(f"`{name}`" for name in sorted(HELD_OUT)),
    )
    tables = [
        _group_table(found),
        _kind_table("Benign kinds warned, paged", benign_kinds(), found, _alarmed),
        _kind_table(
            "Displacement kinds: recall ≥ 10 and median lead, warned; paged", displacement_kinds(), found, _led
        ),
        _kind_table(
            f"Other failures warned, paged from the onset to {SLACK_STEPS} steps after the collapse",
            failure_kinds(),
            found,
            _caught,
        ),
    ]
    return Section(title="Suite A: signals at different cadences", notes=[note], tables=tables)


def _group_table(found: Mapping[str, Traces]) -> Table:
    header = (
        "cadence",
        "candidate",
        "benign warned",
        "benign paged",
        "warn recall ≥ 10",
        "lead",
        "page recall ≥ 5",
        "lead",
        f"other failures warned by +{SLACK_STEPS}",
        "paged",
    )
    rows = []
    for cadence, traces in found.items():
        for candidate in (ENGINE, ENGINE_STANDARD):
            cells = [cadence, candidate]
            for level in LEVELS:
                false = false_alarms(traces[candidate], level)
                cells.append(f"{percent(false.share)} {interval(false.share_interval)}")
            dying = _of_group(traces[candidate], Group.DISPLACEMENT)
            for level, least in zip(LEVELS, (10, 5), strict=True):
                ahead = leads(dying, level)
                cells += [f"{ahead.recall(least):.3f} {interval(ahead.recall_interval(least))}"]
                cells += [f"{ahead.quantile(0.5):.0f}"]
            failing = _of_group(traces[candidate], Group.FAILURE)
            cells += [f"{caught_by(failing, level, slack=SLACK_STEPS) / len(failing):.2f}" for level in LEVELS]
            rows.append(cells)
    return Table(title="All kinds together", header=header, rows=rows)


def _of_group(traces: Sequence[Trace], group: Group) -> list[Trace]:
    return [trace for trace in traces if trace.truth.group is group]


def _kind_table(
    title: str, kinds: Sequence[str], found: Mapping[str, Traces], write: Callable[[Sequence[Trace]], str]
) -> Table:
    """Return a table with a row for each kind, and a column for each cadence and candidate."""
    columns = [
        (f"{cadence}, {candidate.rpartition(', ')[2]}", traces[candidate])
        for cadence, traces in found.items()
        for candidate in (ENGINE, ENGINE_STANDARD)
    ]
    rows = [
        [kind.partition("/")[2], *(write([t for t in traces if t.truth.kind == kind]) for _, traces in columns)]
        for kind in kinds
    ]
    return Table(title=title, header=("kind", *(name for name, _ in columns)), rows=rows)


def _alarmed(traces: Sequence[Trace]) -> str:
    return ", ".join(percent(false_alarms(traces, level).share) for level in LEVELS)


def _led(traces: Sequence[Trace]) -> str:
    return "; ".join(f"{(ahead := leads(traces, level)).recall(10):.2f} {ahead.quantile(0.5):.0f}" for level in LEVELS)


def _caught(traces: Sequence[Trace]) -> str:
    return ", ".join(f"{caught_by(traces, level, slack=SLACK_STEPS) / len(traces):.2f}" for level in LEVELS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection.cadences", description=__doc__)
    add_suite_a_options(parser)
    parser.add_argument("--write", type=Path, help="also write the tables to this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
