"""``python -m benchmarks.detection.leave_one_out``: suite C with the bounds chosen on all repositories but one.

Noise bounds and sizes of every departure are varied, and single detectors switched off. For each repository the variant
that does best on the others is applied to it: the result shows what the choice costs, not what the fit reaches.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.detection.corpus import labelled_corpus
from benchmarks.detection.intervals import clopper_pearson
from benchmarks.detection.runs import Group, LabelledRun
from benchmarks.detection.tables import Section, Table, as_text, interval, percent
from monitor_server.detection.base.shift import ShiftDetector
from monitor_server.detection.channels import mechanisms
from monitor_server.detection.detectors import run_collapsed
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Severity
from monitor_server.detection.registry import DETECTORS
from monitor_server.detection.statistics.departure import Size

__all__ = ["Outcome", "Variant", "best", "main", "scaled"]

NOISE, SIZES = (1.0, 0.7, 1.5), (1.0, 0.6, 1.6)
OPTIONAL = ("", "joint_departure", "reward_fall", "clip_surge", "entropy_explosion", "gradient_explosion")
MOST_WARNED = 0.10  # of the negatives (issue 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Noise bounds and sizes as multiples of what is shipped, and the kind of finding left out, if any."""

    noise: float
    size: float
    without: str

    def __str__(self) -> str:
        """Describe it in words."""
        return f"noise x {self.noise:g}, sizes x {self.size:g}" + (f", no {self.without}" if self.without else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one variant on one run: the kinds that warn in it, and those that warned by the event."""

    repository: str
    is_event: bool
    kinds: frozenset[str]
    kinds_in_time: frozenset[str]


@contextmanager
def scaled(noise: float, size: float) -> Iterator[None]:
    """Vary the bounds of every departure for a while."""
    shifts = [detector for detector in DETECTORS.values() if issubclass(detector, ShiftDetector)]
    shipped = {detector: detector.size for detector in shifts}
    channels, fast = dict(mechanisms.CHANNELS), run_collapsed.FAST
    try:
        for detector in shifts:
            detector.size = _varied(shipped[detector], noise, size)
        for name, (mechanism, signal, bounds) in channels.items():
            mechanisms.CHANNELS[name] = (mechanism, signal, _varied(bounds, noise, size))
        run_collapsed.FAST = _varied(fast, noise, size)
        yield
    finally:
        for detector in shifts:
            detector.size = shipped[detector]
        mechanisms.CHANNELS.update(channels)
        run_collapsed.FAST = fast


def _varied(bounds: Size, noise: float, size: float) -> Size:
    """Return the bounds with their noise multiplied, and their smallest change, absolute and as a factor, likewise."""
    factor = bounds.factor**size
    return replace(bounds, errors=bounds.errors * noise, least=bounds.least * size, factor=factor)


def best(outcomes: Mapping[Variant, Sequence[Outcome]], *, left_out: str) -> Variant:
    """Choose on all repositories but one: most events among those within the bound of negatives, then fewest negatives.

    Equal variants go to the first, which is what is shipped.
    """

    def merit(variant: Variant) -> tuple[bool, int, int]:
        kept = [outcome for outcome in outcomes[variant] if outcome.repository != left_out]
        false, negatives, events, _ = _counts(kept, variant)
        return false <= MOST_WARNED * negatives, events, -false

    return max(outcomes, key=merit)


def _counts(outcomes: Sequence[Outcome], variant: Variant) -> tuple[int, int, int, int]:
    """Return negatives warned, negatives, events warned at or before their row, events."""
    negatives = [outcome for outcome in outcomes if not outcome.is_event]
    events = [outcome for outcome in outcomes if outcome.is_event]
    false = sum(bool(outcome.kinds - {variant.without}) for outcome in negatives)
    found = sum(bool(outcome.kinds_in_time - {variant.without}) for outcome in events)
    return false, len(negatives), found, len(events)


def _outcomes(job: tuple[Path, float, float]) -> list[Outcome]:
    folder, noise, size = job
    with scaled(noise, size):
        return [_outcome(run) for run in labelled_corpus(folder) if run.truth.group in {Group.BENIGN, Group.FAILURE}]


def _outcome(run: LabelledRun) -> Outcome:
    engine, warned, in_time = Engine(), set(), set()
    for observation in run.observations:
        said = {f.kind for f in engine.update(observation).findings if f.severity is not Severity.INFO}
        warned |= said
        if run.truth.collapse is not None and observation.step <= run.truth.collapse:
            in_time |= said
    return Outcome(
        repository=run.name.split("__")[0],
        is_event=run.truth.group is Group.FAILURE,
        kinds=frozenset(warned),
        kinds_in_time=frozenset(in_time),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what each variant reaches, and what choosing without one repository reaches on it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection.leave_one_out", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of labelled logs")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    options = parser.parse_args(arguments)
    grid = list(itertools.product(NOISE, SIZES))
    with ProcessPoolExecutor(options.workers) as pool:
        runs = list(pool.map(_outcomes, [(options.corpus, noise, size) for noise, size in grid]))
    outcomes = {
        Variant(noise=noise, size=size, without=without): found
        for (noise, size), found in zip(grid, runs, strict=True)
        for without in OPTIONAL
    }
    tables = [_variant_table(outcomes), _kind_table(runs[0]), _left_out_table(outcomes)]
    sys.stdout.write(as_text([Section(title="Suite C: leave one repository out", tables=tables)]))
    return 0


def _left_out_table(outcomes: Mapping[Variant, Sequence[Outcome]]) -> Table:
    repositories = sorted({outcome.repository for found in outcomes.values() for outcome in found})
    rows, total = [], [0, 0, 0, 0]
    for repository in repositories:
        variant = best(outcomes, left_out=repository)
        counts = _counts([o for o in outcomes[variant] if o.repository == repository], variant)
        total = [a + b for a, b in zip(total, counts, strict=True)]
        rows.append([repository, str(variant), f"{counts[0]} of {counts[1]}", f"{counts[2]} of {counts[3]}"])
    rows.append(["all, each left out", "", _share(total[0], total[1]), _share(total[2], total[3])])
    header = ("repository left out", "chosen on the others", "negatives warned", "events warned")
    return Table(title="Chosen on the others, applied to the one left out", header=header, rows=rows)


def _variant_table(outcomes: Mapping[Variant, Sequence[Outcome]]) -> Table:
    rows = []
    for variant, found in outcomes.items():
        false, negatives, events, all_events = _counts(found, variant)
        rows.append([str(variant), _share(false, negatives), _share(events, all_events)])
    return Table(title="Variants", header=("variant", "negatives warned", "events warned"), rows=rows)


def _kind_table(outcomes: Sequence[Outcome]) -> Table:
    rows = []
    for kind in sorted({kind for outcome in outcomes for kind in outcome.kinds}):
        warned = [outcome for outcome in outcomes if kind in outcome.kinds]
        alone = [outcome for outcome in warned if outcome.kinds == {kind}]
        cells = [kind]
        for found in (warned, alone):
            cells += [str(sum(not o.is_event for o in found)), str(sum(kind in o.kinds_in_time for o in found))]
        rows.append(cells)
    header = ("kind, as shipped", "negatives", "events", "negatives, alone", "events, alone")
    return Table(title="What each detector contributes", header=header, rows=rows)


def _share(count: int, total: int) -> str:
    return f"{count} of {total}, {percent(count / max(1, total))} {interval(clopper_pearson(count, total), digits=2)}"


if __name__ == "__main__":
    raise SystemExit(main())
