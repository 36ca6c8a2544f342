"""``python -m benchmarks.detection.priors``: tests whether data of other runs help in the first rows of a short run.

A prior consists of artificial rows before the run: values around those of its first two rows, with the noise of the
first rows of healthy runs of other repositories, in the same trainer or in all. Every baseline then begins with these
rows, and each row of the run itself reduces their weight. The detectors are the shipped ones. A prior never uses the
repository to whose runs it is applied, and the variant is chosen on the other repositories.
"""

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.detection.corpus_command import corpus_parser, write_block
from benchmarks.detection.results_page.tables import Section, Table, as_text, count_true
from benchmarks.detection.runs import Group, LabelledRun
from benchmarks.detection.suites.real_logs.by_repository import SHORT_ROWS, repository
from benchmarks.detection.suites.real_logs.corpus import labelled_corpus
from benchmarks.detection.suites.real_logs.events import LEAD_ROWS, WARN_SLACK
from benchmarks.detection.suites.real_logs.run_folders import run_paths
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation, Severity
from monitor_server.importers.corpus import read_meta

__all__ = ["Prior", "PriorVariant", "learn", "main", "prepend", "trainer_of"]

OWN_ROWS = 2  # of the run, around which the rows of the prior lie; no alarm counts in them
FIRST_ROWS = 12  # of a healthy run, which show how noisy first rows are, drift included
LEAST_VALUES = 6
MOST_WARNED = 0.08  # of the negatives (issue 17)
POOLED = "any trainer"

_NOTE = """Language models of at most {rows} rows, and the first {rows} rows of longer healthy ones. A prior of k rows
lies around a run's first two rows, with the noise that the first {first} rows of healthy runs of other repositories
had, in the same trainer (TRL, verl, others) or in any, or with twice that noise. Nearly all of these runs are GRPO, so
that there is no prior by algorithm. An alarm counts where it opens, and with a prior not in the first two rows. The
last row takes for each repository the variant that finds most events on the others, among those that warn at most
{most:.0f} % of the negatives there, and of equal ones the one that warns fewer. The rules had been fitted on these runs
without a prior, where they miss no event, so that a prior could only warn earlier or of fewer negatives. Exact
intervals, 95 %."""

Prior = Mapping[str, float]
"""Noise of each signal in its first rows, relative to its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorVariant:
    """A prior: of how many rows, whose noise, and how many times it. No rows: as shipped."""

    rows: int = 0
    by_trainer: bool = False
    times: float = 1.0

    def __str__(self) -> str:
        """Describe it in words."""
        if not self.rows:
            return "no prior, as shipped"
        noise = "" if self.times == 1.0 else f", {self.times:g} times the noise"
        return f"{self.rows} rows of {'the same trainer' if self.by_trainer else POOLED}{noise}"


VARIANTS = (
    PriorVariant(),
    *(
        PriorVariant(rows=rows, by_trainer=by_trainer, times=times)
        for by_trainer in (False, True)
        for rows in (4, 8, 16)
        for times in (1.0, 2.0)
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorOutcome:
    """The result of a run: whether a warning opened, and its rows before the event (None: not in time)."""

    repository: str
    is_event: bool
    is_cut: bool
    warned: bool
    by_slack: bool = False
    lead: int | None = None


def trainer_of(meta: Mapping[str, object]) -> str:
    """Return the trainer that wrote a log, by the names of its metrics.

    >>> trainer_of({"signals": {"length": "train/completions/mean_length", "loss": "train/loss"}})
    'TRL'
    """
    signals = meta.get("signals")
    names = {str(name).removeprefix("train/") for name in signals.values()} if isinstance(signals, Mapping) else set()
    if any(name.startswith(("actor/", "critic/", "actor_", "critic_")) for name in names):
        return "verl"
    if names & {
        "completions/mean_length",
        "completion_length",
        "clip_ratio/region_mean",
        "reward_std",
        "learning_rate",
    }:
        return "TRL"
    return "another"


def learn(runs: Iterable[tuple[str, LabelledRun]]) -> dict[str, Prior]:
    """Return the prior of each trainer and of all: medians over repositories of the noise of healthy first rows.

    Args:
        runs: Healthy runs with their trainers.
    """
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trainer, run in runs:
        for signal, noise in _noise(run.observations).items():
            for scope in (trainer, POOLED):
                found[scope, signal][repository(run.name)].append(noise)
    priors: dict[str, dict[str, float]] = defaultdict(dict)
    for (scope, signal), by_repository in found.items():
        priors[scope][signal] = statistics.median(map(statistics.median, by_repository.values()))
    return dict(priors)


def _noise(observations: Sequence[Observation]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for row in observations[:FIRST_ROWS]:
        for signal, value in row.signals.items():
            if math.isfinite(value):
                values[signal].append(value)
    noises = {}
    for signal, seen in values.items():
        centre = statistics.median(seen)
        if len(seen) >= LEAST_VALUES and centre:
            noises[signal] = 1.4826 * statistics.median(abs(value - centre) for value in seen) / abs(centre)
    return noises


def prepend(observations: Sequence[Observation], prior: Prior, variant: PriorVariant) -> list[Observation]:
    """Return the rows of a run after those of a prior, which are at the quantiles of a normal distribution."""
    rows = variant.rows
    if not rows or len(observations) < OWN_ROWS:
        return list(observations)
    quantiles = [statistics.NormalDist().inv_cdf((place + 0.5) / rows) for place in range(rows)]
    series = {}
    for order, signal in enumerate(sorted(prior)):
        own = [row.signals.get(signal, math.nan) for row in observations[:OWN_ROWS]]
        if all(map(math.isfinite, own)):
            centre = statistics.fmean(own)
            noise = variant.times * prior[signal] * abs(centre)
            # Each signal has a different order, so that no two signals move together.
            drawn = np.random.default_rng(order).permutation(quantiles)
            series[signal] = [centre + noise * float(quantile) for quantile in drawn]
    first = observations[0]
    before = [
        replace(first, step=first.step - rows + place, signals={name: values[place] for name, values in series.items()})
        for place in range(rows)
    ]
    return [*before, *observations]


def _outcome(run: LabelledRun, prior: Prior, variant: PriorVariant) -> PriorOutcome:
    engine, event, is_cut = Engine(), run.truth.collapse, len(run.observations) > SHORT_ROWS
    own = run.observations[:SHORT_ROWS]
    at = None if event is None else int(np.searchsorted([row.step for row in own], event))
    skipped = OWN_ROWS if variant.rows else 0
    alarmed, held = [], False
    for row, observation in enumerate(prepend(own, prior, variant), start=-variant.rows if len(own) >= OWN_ROWS else 0):
        held_before, held = held, any(f.severity is not Severity.INFO for f in engine.update(observation).findings)
        if row >= skipped and held and not held_before:
            alarmed.append(row)
    in_time = [] if at is None else [row for row in alarmed if at - LEAD_ROWS <= row <= at + WARN_SLACK]
    lead = None if at is None or not in_time or in_time[0] > at else at - in_time[0]
    return PriorOutcome(
        repository=repository(run.name),
        is_event=event is not None,
        is_cut=is_cut,
        warned=bool(alarmed),
        by_slack=bool(in_time),
        lead=lead,
    )


def _outcomes(runs: Sequence[tuple[str, LabelledRun]]) -> dict[PriorVariant, list[PriorOutcome]]:
    """Return the outcome of every variant on every short run, each with a prior made without the run's repository."""
    outcomes: dict[PriorVariant, list[PriorOutcome]] = {variant: [] for variant in VARIANTS}
    healthy = [(trainer, run) for trainer, run in runs if run.truth.group is Group.BENIGN]
    for left_out in sorted({repository(run.name) for _, run in runs}):
        priors = learn((trainer, run) for trainer, run in healthy if repository(run.name) != left_out)
        for trainer, run in runs:
            is_scored = run.truth.group is Group.BENIGN or len(run.observations) <= SHORT_ROWS
            if repository(run.name) == left_out and is_scored:
                for variant, found in outcomes.items():
                    scope = trainer if variant.by_trainer and trainer in priors else POOLED
                    found.append(_outcome(run, priors[scope], variant))
    return outcomes


def _chosen(outcomes: Mapping[PriorVariant, Sequence[PriorOutcome]], left_out: str) -> PriorVariant:
    def merit(variant: PriorVariant) -> tuple[bool, int, int]:
        kept = [outcome for outcome in outcomes[variant] if outcome.repository != left_out]
        negatives = [outcome.warned for outcome in kept if not outcome.is_event]
        found = sum(outcome.lead is not None for outcome in kept) + sum(outcome.by_slack for outcome in kept)
        return sum(negatives) <= MOST_WARNED * len(negatives), found, -sum(negatives)

    return max(VARIANTS, key=merit)


def _section(outcomes: Mapping[PriorVariant, Sequence[PriorOutcome]]) -> Section:
    rows = [_row(str(variant), found) for variant, found in outcomes.items()]
    applied = []
    for name in sorted({outcome.repository for outcome in outcomes[VARIANTS[0]]}):
        applied += [outcome for outcome in outcomes[_chosen(outcomes, name)] if outcome.repository == name]
    rows.append(_row("chosen on the others, applied to the one left out", applied))
    header = (
        "prior",
        f"negatives of at most {SHORT_ROWS} rows warned",
        f"first {SHORT_ROWS} rows of longer negatives warned",
        "events warned before, within 50 rows",
        f"by +{WARN_SLACK}",
        "median lead, rows",
    )
    note = _NOTE.format(rows=SHORT_ROWS, first=FIRST_ROWS, most=100 * MOST_WARNED)
    return Section(
        title="Short runs with priors from other runs",
        notes=[note],
        tables=[
            Table(title="Each prior, learned without the repository that it is applied to", header=header, rows=rows)
        ],
    )


def _row(name: str, outcomes: Sequence[PriorOutcome]) -> list[str]:
    events = [outcome for outcome in outcomes if outcome.is_event]
    short, cut = ([o.warned for o in outcomes if not o.is_event and o.is_cut is is_cut] for is_cut in (False, True))
    before = [outcome.lead is not None for outcome in events]
    leads = [outcome.lead or 0 for outcome in events]
    cells = [count_true(flags) for flags in (short, cut, before, [outcome.by_slack for outcome in events])]
    return [name, *cells, f"{statistics.median(leads):g}" if leads else ""]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write it to a page where one is given."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = corpus_parser("benchmarks.detection.priors", __doc__)
    options = parser.parse_args(given)
    trainers = {path.name: trainer_of(read_meta(path)) for folder in options.corpus for path in run_paths(folder)}
    scored = {Group.BENIGN, Group.FAILURE}
    runs = [
        (trainers[run.name], run)
        for run in labelled_corpus(*options.corpus)
        if run.truth.group in scored and run.truth.is_language_model
    ]
    section = _section(_outcomes(runs))
    sys.stdout.write(as_text([section]))
    write_block(options.write, "priors", section, prog=parser.prog, given=given)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
