"""Suite D: failures induced in TRL at a known step, each with its healthy twin. Unseen pairs have separate tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.detection.candidates.engine import ENGINE_STANDARD, engines
from benchmarks.detection.candidates.workers import trace_run
from benchmarks.detection.induced.pairs import CHANNELS, FIRST_LATER_NUMBER, LOST_ROWS, LOST_SHARE, Half, Pair, pairs
from benchmarks.detection.results_page.tables import Section, Table, interval, percent
from benchmarks.detection.runs import Truth
from benchmarks.detection.scoring.intervals import clopper_pearson
from benchmarks.detection.scoring.traces import Trace

__all__ = ["Scored", "collect", "numbers", "section"]

SUDDEN_ROWS = 5  # after the onset, within which a sudden failure is to be paged
EARLY_ROW = 15  # a baseline has barely formed by then
LEAD_ROWS = 20  # before the loss, by which a slow failure is to be warned
TITLES = {
    Half.OPEN: "Open seeds: rules were chosen on them",
    Half.UNSEEN_SEEDS: "Unseen seeds of the same causes",
    Half.LATER_SEEDS: "Later seeds of the same causes, recorded when the rules of builtin-13 were fixed",
    Half.UNSEEN_CAUSES: "Causes that were added when the rules were fixed",
    Half.OTHER_TRAINER: "Another trainer: TRL's RLOOTrainer, of which no rule has seen a run",
}

# Authors of rules must see only the counts of these pairs.
UNLISTED = (Half.UNSEEN_SEEDS, Half.LATER_SEEDS, Half.OTHER_TRAINER)

_NOTE = """{pairs} pairs of a run of a trainer of TRL and its healthy twin of the same seed: the same to the last bit
before the onset. The trainer is GRPOTrainer, in the last table RLOOTrainer. A tiny Qwen2 puts six letters into order.
A run has failed if its quality, the mean probability of the right answer on 64 held-out problems, lies under
{share:.0%} of its twin's in {rows} successive rows; the loss is the first of these. {unfailed} runs did not fail; they
are left out, and their twins are not. Hooks: all that the callback sends, with the paired channel and without. Log:
what TRL prints. Pairs of odd numbers are unseen: no rule was chosen on them, and they are counted and not listed one
by one, as those of RLOOTrainer are. Only their seeds differ from those of the open pairs, and an earlier edition of
this page showed their delays under `builtin-9` to those who made the rules of `builtin-10`. The later pairs, from
number {later} on, were recorded when the rules of `builtin-13` were fixed, and scored once. A cause that was added when
the rules were fixed has chosen nothing either. Its pairs are listed, so that the next rules need other causes for a
test. An alarm before the onset earns no lead; those rows are the twin's, where it counts as false. Leads are rows
from the first warning since the onset to the loss, 0 where there is none before it. Intervals are exact, 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One pair with the traces of one candidate."""

    pair: Pair
    failing: Trace
    healthy: Trace

    def rows_to(self, level: str) -> int | None:
        """Return the rows from the onset to the first alarm that opens at or after it; None without an alarm."""
        openings = [step for step in self.failing.openings(level).tolist() if step >= self._onset]
        return openings[0] - self._onset if openings else None

    @property
    def rows_to_loss(self) -> int:
        """Rows from the onset to the loss."""
        return (self._truth.collapse or 0) - self._onset

    @property
    def is_early(self) -> bool:
        """Return whether the onset comes before a baseline has formed."""
        return self._onset <= EARLY_ROW

    @property
    def lead(self) -> int:
        """Rows from the first warning since the onset to the loss; 0 where there is none before it."""
        warned = self.rows_to("warn")
        return 0 if warned is None else max(0, self.rows_to_loss - warned)

    @property
    def _truth(self) -> Truth:
        return self.failing.truth

    @property
    def _onset(self) -> int:
        return self._truth.onset or 0


Found = dict[str, list[Scored]]  # by candidate


def collect(folder: Path) -> Found:
    """Run our engine over the recordings of a folder, as seen through each channel."""
    found: Found = {}
    for channel in CHANNELS:
        for pair in pairs(folder, channel):
            for candidate in engines():
                if channel == "log" and candidate.name != ENGINE_STANDARD:
                    continue  # a log holds no paired channel
                name = f"{channel}, {candidate.name.removeprefix('rlvitals, ')}"
                (failing,) = trace_run(pair.failing, [candidate])[candidate.name]
                (healthy,) = trace_run(pair.healthy, [candidate])[candidate.name]
                found.setdefault(name, []).append(Scored(pair=pair, failing=failing, healthy=healthy))
    return found


def section(found: Found) -> Section:
    """Return the report on suite D."""
    title = "Suite D: failures induced in TRL"
    if not found:
        return Section(title=title, notes=["No recordings were found; `make record-suite-d` makes them."])
    first = next(iter(found.values()))
    note = _NOTE.format(
        pairs=len(first),
        share=LOST_SHARE,
        rows=LOST_ROWS,
        later=FIRST_LATER_NUMBER,
        unfailed=sum(not scored.pair.has_failed for scored in first),
    )
    tables = [_cause_table(first)]
    for half, title_of_half in TITLES.items():
        scored_of_half = {name: _of(scores, half) for name, scores in found.items()}
        if not any(scored_of_half.values()):
            continue
        rows = [[name, *_cells(scores)] for name, scores in scored_of_half.items()]
        tables.append(Table(title=title_of_half, header=_HEADER, rows=rows))
        if half not in UNLISTED:
            tables += [_failures(f"{name}, {half}", scores) for name, scores in scored_of_half.items()]
    return Section(title=title, notes=[note, *_without_failures(first)], tables=tables)


def numbers(found: Found) -> dict[str, object]:
    """Return the scores of suite D as JSON values, each count with its total."""
    return {
        f"{name}, {half}": {
            label: list(_count(_of(scores, half), kept, holds)) for label, (kept, holds) in _MEASURES.items()
        }
        for name, scores in found.items()
        for half in Half
    }


def _cause_table(scores: Sequence[Scored]) -> Table:
    """Return how many pairs of each cause failed in each part of the recordings; nothing about their alarms."""
    rows = [
        [cause, *(_failed_of([scored for scored in of_cause if scored.pair.half is half]) for half in Half)]
        for cause, of_cause in _by_cause(scores).items()
    ]
    return Table(title="Pairs that failed, by cause", header=("cause", *Half), rows=rows)


def _failed_of(scores: Sequence[Scored]) -> str:
    return f"{sum(scored.pair.has_failed for scored in scores)} of {len(scores)}" if scores else ""


def _without_failures(scores: Sequence[Scored]) -> list[str]:
    """Return a sentence that names the causes of the open seeds of which no run failed, if there is one."""
    causes = _by_cause(_of(scores, Half.OPEN))
    unhurt = [cause for cause, own in causes.items() if not any(scored.pair.has_failed for scored in own)]
    if not unhurt:
        return []
    names = ", ".join(f"`{cause}`" for cause in unhurt)
    count = f"Of {len(unhurt)} of the {len(causes)} causes"
    return [f"{count} no run with an open seed failed ({names}):\nno rule was chosen on a failure of theirs."]


def _by_cause(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    causes: dict[str, list[Scored]] = {}
    for scored in scores:
        causes.setdefault(scored.pair.failure.partition("-")[0], []).append(scored)
    return dict(sorted(causes.items()))


def _of(scores: Sequence[Scored], half: Half) -> list[Scored]:
    return [scored for scored in scores if scored.pair.half is half]


def _is_sudden(scored: Scored) -> bool:
    return scored.pair.has_failed and scored.pair.is_sudden


def _is_slow(scored: Scored) -> bool:
    return scored.pair.has_failed and not scored.pair.is_sudden


def _is_early(scored: Scored) -> bool:
    return _is_sudden(scored) and scored.is_early


def _within(level: str, rows: int) -> Callable[[Scored], bool]:
    return lambda scored: (found := scored.rows_to(level)) is not None and found <= rows


_MEASURES: dict[str, tuple[Callable[[Scored], bool], Callable[[Scored], bool]]] = {
    f"sudden: warned within {SUDDEN_ROWS} rows": (_is_sudden, _within("warn", SUDDEN_ROWS)),
    f"sudden: paged within {SUDDEN_ROWS} rows": (_is_sudden, _within("page", SUDDEN_ROWS)),
    f"onset by row {EARLY_ROW}: warned within {SUDDEN_ROWS} rows": (_is_early, _within("warn", SUDDEN_ROWS)),
    "sudden: paged": (_is_sudden, lambda scored: scored.rows_to("page") is not None),
    "slow: warned before the loss": (_is_slow, lambda scored: scored.lead > 0),
    f"slow: warned {LEAD_ROWS} rows before": (_is_slow, lambda scored: scored.lead >= LEAD_ROWS),
    "slow: warned": (_is_slow, lambda scored: scored.rows_to("warn") is not None),
    "twins warned": (lambda _: True, lambda scored: len(scored.healthy.openings("warn")) > 0),
    "twins paged": (lambda _: True, lambda scored: len(scored.healthy.openings("page")) > 0),
}
_HEADER = ("candidate", *_MEASURES, "slow: median lead")


def _count(
    scores: Sequence[Scored], kept: Callable[[Scored], bool], holds: Callable[[Scored], bool]
) -> tuple[int, int]:
    counted = [scored for scored in scores if kept(scored)]
    return sum(map(holds, counted)), len(counted)


def _cells(scores: Sequence[Scored]) -> list[str]:
    cells = []
    for kept, holds in _MEASURES.values():
        count, total = _count(scores, kept, holds)
        share = percent(count / total) if total else "–"
        cells.append(f"{count} of {total}, {share} {interval(clopper_pearson(count, total), digits=2)}")
    slow = [scored.lead for scored in scores if _is_slow(scored)]
    return [*cells, f"{np.median(slow):.0f}" if slow else "–"]


def _failures(name: str, scores: Sequence[Scored]) -> Table:
    rows = []
    for failure in dict.fromkeys(scored.pair.failure for scored in scores):
        own = [scored for scored in scores if scored.pair.failure == failure]
        failed = [scored for scored in own if scored.pair.has_failed]
        rows.append(
            [
                failure,
                f"{len(failed)} of {len(own)}",
                *(_listed([count(scored) for scored in failed]) for count in _DELAYS),
            ]
        )
    header = ("failure", "failed", "rows from onset to loss", "to the first warning", "to the first page")
    return Table(title=f"{name}: every failure, rows after the onset, – for never", header=header, rows=rows)


_DELAYS: Sequence[Callable[[Scored], int | None]] = (
    lambda scored: scored.rows_to_loss,
    lambda scored: scored.rows_to("warn"),
    lambda scored: scored.rows_to("page"),
)


def _listed(delays: Sequence[int | None]) -> str:
    return ", ".join("–" if rows is None else str(rows) for rows in delays)
