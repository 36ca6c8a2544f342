"""The tables of the warranty: the pages at every stopping time against the budget, and the failures without a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.detection.results_page.tables import Section, Table, interval
from benchmarks.detection.scoring.intervals import clopper_pearson
from benchmarks.detection.warranty.fleets import (
    STOPPING_TIMES,
    Fleet,
    Moment,
    Pool,
    Split,
    draw_fleet,
    split_at_random,
    split_by_source,
)
from benchmarks.detection.warranty.page_strengths import LEVELS, open_rows
from monitor_server.detection.false_alarm_budget import Warranty

__all__ = ["Plan", "describe", "suite_section"]

SEED = 17
WARRANTIES = 1000  # drawn for the cost on failing runs
NORMAL_95 = 1.96
SPLITS: Mapping[Split, str] = {
    split_at_random: "drawn at random",
    split_by_source: "played runs from other repositories, which nothing is promised for",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The simulation of a suite: runs that make the warranty, runs played, one page in how many steps."""

    learnt: int
    played: int
    steps_per_page: Sequence[float]
    fleets: int
    by_source: bool = False


def suite_section(title: str, pool: Pool, plan: Plan) -> Section:
    """Simulate the fleets of one suite and return its section."""
    healthy = [run for run in pool if run.is_healthy]
    failing = [run for run in pool if not run.is_healthy]
    splits = [split_at_random, split_by_source] if plan.by_source else [split_at_random]
    tables = [
        _fleet_table(healthy, plan, split, level=level, steps_per_page=steps_per_page)
        for split in splits
        for level in LEVELS
        for steps_per_page in plan.steps_per_page
    ]
    if failing:
        tables.append(_cost_table(healthy, failing, plan))
    return Section(title=title, notes=[describe(healthy, failing, plan)], tables=tables)


def describe(healthy: Pool, failing: Pool, plan: Plan) -> str:
    """Describe the runs of a suite and what is drawn from them."""
    paged, alarmed = (sum(bool(run.alarms[level]) for run in healthy) for level in LEVELS)
    return (
        f"{len(healthy)} healthy runs with {sum(run.rows for run in healthy):,} recorded steps and {len(failing)} "
        f"failing runs. {paged} of the healthy runs have a page, and {alarmed} a page or a warning. Of each of "
        f"{plan.fleets:,} fleets {plan.learnt} healthy runs make the warranty and {plan.played} others are played."
    )


def _fleet_table(healthy: Pool, plan: Plan, split: Split, *, level: str, steps_per_page: float) -> Table:
    rng = np.random.default_rng(SEED)
    fleets: list[Fleet] = []
    without = 0
    for _ in range(plan.fleets):
        fleet = draw_fleet(
            healthy,
            rng,
            level=level,
            steps_per_page=steps_per_page,
            learnt=plan.learnt,
            played=plan.played,
            split=split,
        )
        if fleet.warranty.is_in_force:
            fleets.append(fleet)
        else:
            without += 1
    what = "" if level == "pages" else ", every warning taken for a page"
    title = (
        f"One false page in {steps_per_page:,.0f} steps{what}; {SPLITS[split]}; {without:,} fleets without a warranty"
    )
    header = (
        "stopped at",
        "false pages",
        "steps / N",
        "pages per N steps recorded [95 %]",
        "pages per N steps of the runs begun [95 %]",
        "fleets with a page [exact 95 %]",
        "kept",
    )
    rows = [_row(name, [stop(fleet) for fleet in fleets], steps_per_page) for name, stop in STOPPING_TIMES.items()]
    return Table(title=title, header=header, rows=rows)


def _row(name: str, moments: Sequence[Moment], steps_per_page: float) -> list[str]:
    if not moments:
        return [name, *["–"] * 6]
    pages = np.array([moment.pages for moment in moments], dtype=float)
    recorded, begun = (
        np.array([getattr(moment, field) for moment in moments], dtype=float) / steps_per_page
        for field in ("steps", "steps_begun")
    )
    with_page = int((pages > 0).sum())
    low, high = _bounds(pages, begun)
    kept = "yes" if high <= 1.0 else "yes, within noise" if low <= 1.0 else "NO"
    return [
        name,
        f"{pages.sum():,.0f}",
        f"{recorded.sum():,.0f}",
        f"{pages.sum() / recorded.sum():.3f} {interval(_bounds(pages, recorded))}",
        f"{pages.sum() / begun.sum():.3f} {interval((low, high))}",
        f"{with_page / len(pages):.4f} {interval(clopper_pearson(with_page, len(pages)), digits=4)}",
        kept,
    ]


def _bounds(pages: np.ndarray, allowed: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of Σ pages / Σ allowed over independent fleets, by the delta method."""
    ratio = pages.sum() / allowed.sum()
    error = (pages - ratio * allowed).std() / (np.sqrt(len(pages)) * allowed.mean())
    return max(0.0, ratio - NORMAL_95 * error), ratio + NORMAL_95 * error


def _cost_table(healthy: Pool, failing: Pool, plan: Plan) -> Table:
    """Return how many failing runs are still paged, over warranties learnt from runs that are drawn at random.

    A warranty that is not in force holds no page back, so only those in force tell a cost.
    """
    plain = [open_rows(run, "pages", None) for run in failing]
    ahead = [[row for row in rows if row < run.end] for run, rows in zip(failing, plain, strict=True)]
    rows = []
    for steps_per_page in plan.steps_per_page:
        costs = _costs(healthy, failing, plan, plain, steps_per_page)
        delays = [delay for cost in costs for delay in cost.delays]
        rows.append(
            [
                f"{steps_per_page:,.0f}",
                f"{len(costs):,} of {WARRANTIES:,}",
                f"{sum(map(bool, plain))} of {len(failing)}",
                f"{np.mean([cost.paged for cost in costs]):.2f}" if costs else "–",
                f"{sum(map(bool, ahead))}",
                f"{np.mean([cost.before for cost in costs]):.2f}" if costs else "–",
                f"{np.mean(delays):.2f}" if delays else "–",
            ]
        )
    header = (
        "one page in, steps",
        "warranties in force",
        "failing runs paged without a budget",
        "with it, mean",
        "paged before the failure without",
        "with it, mean",
        "rows later, mean",
    )
    return Table(title=f"What the budget costs, over {WARRANTIES:,} warranties", header=header, rows=rows)


class _Cost(NamedTuple):
    """The failing runs that are paged under one warranty, those of them before the failure, and the rows lost."""

    paged: int
    before: int
    delays: list[int]


def _costs(
    healthy: Pool, failing: Pool, plan: Plan, plain: Sequence[Sequence[int]], steps_per_page: float
) -> list[_Cost]:
    """Return the cost under each warranty in force; ``plain`` are the rows of the pages without a warranty."""
    rng = np.random.default_rng(SEED)
    costs = []
    for _ in range(WARRANTIES):
        known, _ = split_at_random(healthy, rng, plan.learnt, 0)
        warranty = Warranty.of_runs(steps_per_page, [healthy[place].score("pages") for place in known])
        if not warranty.is_in_force:
            continue
        opened = [
            open_rows(run, "pages", warranty) if without else [] for run, without in zip(failing, plain, strict=True)
        ]
        costs.append(
            _Cost(
                paged=sum(map(bool, opened)),
                before=sum(bool(rows) and rows[0] < run.end for run, rows in zip(failing, opened, strict=True)),
                delays=[rows[0] - without[0] for rows, without in zip(opened, plain, strict=True) if rows],
            )
        )
    return costs
