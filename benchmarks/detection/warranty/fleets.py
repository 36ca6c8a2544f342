"""Simulated fleets: healthy runs drawn at random. A warranty is made from some runs and applied to the others.

The runs of a fleet are played one after another. A stopping time is a place in that sequence that is chosen from the
sequence so far, or, where that is stated, in hindsight.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.detection.warranty.page_strengths import RunPages, open_rows
from monitor_server.detection.false_alarm_budget import Warranty

__all__ = ["STOPPING_TIMES", "Fleet", "Moment", "Pool", "draw_fleet", "split_at_random", "split_by_source"]

EARLY = 50  # rows


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in a fleet: the pages opened and the steps recorded until then, and all steps of the runs begun."""

    pages: int
    steps: int
    steps_begun: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """The runs of a fleet in order, as rows and rows at which false pages open, and the warranty that they had."""

    warranty: Warranty
    rows: Sequence[int]
    opened: Sequence[Sequence[int]]

    def whole(self, runs: int) -> Moment:
        """Return the end of the first ``runs`` runs."""
        steps = sum(self.rows[:runs])
        return Moment(sum(map(len, self.opened[:runs])), steps, steps)

    def at_step(self, step: int) -> Moment:
        """Return the moment after ``step`` steps of the fleet, or its end."""
        pages = steps = 0
        for rows, opened in zip(self.rows, self.opened, strict=True):
            if steps + rows >= step:
                return Moment(pages + sum(row < step - steps for row in opened), step, steps + rows)
            pages, steps = pages + len(opened), steps + rows
        return Moment(pages, steps, steps)

    def page_steps(self) -> list[int]:
        """Return the number of steps of the fleet at each false page, including the step of the page."""
        starts = np.concatenate(([0], np.cumsum(self.rows)))
        return [int(start) + row + 1 for start, opened in zip(starts, self.opened, strict=False) for row in opened]


Pool = Sequence[RunPages]
Split = Callable[[Pool, np.random.Generator, int, int], tuple[Sequence[int], Sequence[int]]]


def split_at_random(
    pool: Pool, rng: np.random.Generator, learnt: int, played: int
) -> tuple[Sequence[int], Sequence[int]]:
    """Draw the runs to learn from and to play without replacement: they are exchangeable by construction."""
    order = rng.permutation(len(pool))
    return order[:learnt].tolist(), order[learnt : learnt + played].tolist()


def split_by_source(
    pool: Pool, rng: np.random.Generator, learnt: int, played: int
) -> tuple[Sequence[int], Sequence[int]]:
    """Learn from some repositories and play runs of others: the runs are not exchangeable, and nothing is promised."""
    sources = sorted({run.source for run in pool})
    known = {sources[place] for place in rng.permutation(len(sources))[: len(sources) // 2]}
    order = rng.permutation(len(pool)).tolist()
    here = [place for place in order if pool[place].source in known]
    there = [place for place in order if pool[place].source not in known]
    return here[:learnt], there[:played]


def draw_fleet(
    pool: Pool, rng: np.random.Generator, *, level: str, steps_per_page: float, learnt: int, played: int, split: Split
) -> Fleet:
    """Draw a fleet, learn its warranty and play its runs."""
    known, new = split(pool, rng, learnt, played)
    warranty = Warranty.of_runs(steps_per_page, [pool[place].score(level) for place in known])
    runs = [pool[place] for place in new]
    return Fleet(warranty, [run.rows for run in runs], [open_rows(run, level, warranty) for run in runs])


def _stopped_early(fleet: Fleet) -> Moment:
    """Return the end of the fleet where every run is stopped at its row `EARLY`."""
    pages = sum(row < EARLY for opened in fleet.opened for row in opened)
    return Moment(pages, sum(min(rows, EARLY) for rows in fleet.rows), sum(fleet.rows))


def _first_page(fleet: Fleet) -> Moment:
    steps = fleet.page_steps()
    return fleet.at_step(steps[0]) if steps else fleet.whole(len(fleet.rows))


def _first_excess(fleet: Fleet) -> Moment:
    """Return the first moment at which the pages exceed the steps begun / N, or the end of the fleet."""
    for step in fleet.page_steps():
        moment = fleet.at_step(step)
        if moment.pages > moment.steps_begun / fleet.warranty.steps_per_page:
            return moment
    return fleet.whole(len(fleet.rows))


def _more_after_a_page(fleet: Fleet) -> Moment:
    half = len(fleet.rows) // 2
    return fleet.whole(len(fleet.rows)) if fleet.whole(half).pages else fleet.whole(half)


STOPPING_TIMES: Mapping[str, Callable[[Fleet], Moment]] = {
    "the end of the first run": lambda fleet: fleet.whole(1),
    "half of the fleet's steps": lambda fleet: fleet.at_step(sum(fleet.rows) // 2),
    f"row {EARLY} of every run": _stopped_early,
    "the end of the fleet": lambda fleet: fleet.whole(len(fleet.rows)),
    "the first false page": _first_page,
    "the first moment above the budget": _first_excess,
    "half of the runs, and all of them only after a page": _more_after_a_page,
}
