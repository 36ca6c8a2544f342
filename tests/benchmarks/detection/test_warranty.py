"""The simulated fleets behave as the engine does, and their stopping times are at the stated rows."""

import numpy as np
import pytest

from benchmarks.detection.warranty.fleets import (
    EARLY,
    STOPPING_TIMES,
    Fleet,
    Moment,
    draw_fleet,
    split_at_random,
    split_by_source,
)
from benchmarks.detection.warranty.page_strengths import LEVELS, RunPages, open_rows
from benchmarks.detection.warranty.report import Plan, suite_section
from monitor_server.detection.calibration import Calibration
from monitor_server.detection.engine import Engine
from monitor_server.detection.false_alarm_budget import Warranty
from monitor_server.detection.protocol import Severity
from tests.monitor_server.detection.spirals import spiral


def quiet(number, rows=40, source="a"):
    """Return a healthy run without an alarm."""
    return RunPages(
        name=f"run {number}",
        source=source,
        is_healthy=True,
        rows=rows,
        end=rows,
        alarms={level: [] for level in LEVELS},
    )


def loud(number, strength, at=10, source="a"):
    """Return a healthy run of 40 rows with an alarm of three rows."""
    alarms = [(at + row, strength) for row in range(3)]
    return RunPages(
        name=f"loud {number}",
        source=source,
        is_healthy=True,
        rows=40,
        end=40,
        alarms={"pages": alarms, "warnings": alarms},
    )


@pytest.mark.parametrize("weight", [0.0, 1e3, 1e9, 1e20])
def test_pages_open_where_the_engine_opens_them(weight):
    """The rows of the simulation are those of an engine with the same warranty, row by row."""
    warranty = Warranty(steps_per_page=1000.0, runs=9, steps=2500, longest=300, weight=weight)
    plain, held, alarms, opened = Engine(), Engine(Calibration(warranty=warranty)), [], []
    was_open = False
    for row, observation in enumerate(spiral()):
        strengths = [f.strength for f in plain.update(observation).findings if f.severity is Severity.CRITICAL]
        alarms += [(row, max(strengths))] if strengths else []
        is_open = any(f.severity is Severity.CRITICAL for f in held.update(observation).findings)
        opened += [row] if is_open and not was_open else []
        was_open = is_open
    run = RunPages(
        name="spiral", source="", is_healthy=False, rows=160, end=140, alarms={"pages": alarms, "warnings": []}
    )
    assert open_rows(run, "pages", warranty) == opened
    assert open_rows(run, "pages", None) == [alarms[0][0]]


def test_stopping_times_are_where_they_say():
    """Runs of 40, 40 and 80 rows, with pages at row 10 of the second and at rows 20 and 60 of the third.

    At one page in 60 steps the first page is within the budget, 80 / 60 of the runs begun, though not of the 51 steps
    recorded; so is the second, at 160 / 60. The third is not.
    """
    fleet = Fleet(Warranty(steps_per_page=60.0), [40, 40, 80], [[], [10], [20, 60]])
    found = {name: stop(fleet) for name, stop in STOPPING_TIMES.items()}
    assert found["the end of the first run"] == Moment(0, 40, 40)
    assert found["half of the fleet's steps"] == Moment(1, 80, 80)
    assert found["the end of the fleet"] == Moment(3, 160, 160)
    assert found["the first false page"] == Moment(1, 51, 80)
    assert found["the first moment above the budget"] == Moment(3, 141, 160)
    assert found["half of the runs, and all of them only after a page"] == Moment(0, 40, 40)
    assert found[f"row {EARLY} of every run"] == Moment(2, 130, 160)


def test_stopping_times_without_a_page_are_at_the_end_and_a_page_in_the_first_half_continues_the_fleet():
    """What stops at a page has none to stop at, and what goes on after a page goes on to the end of all runs."""
    quiet_fleet, paged = (Fleet(Warranty(steps_per_page=60.0), [40, 80], [opened, []]) for opened in ([], [10]))
    for name in ("the first false page", "the first moment above the budget"):
        assert STOPPING_TIMES[name](quiet_fleet) == Moment(0, 120, 120)
    assert STOPPING_TIMES["half of the runs, and all of them only after a page"](paged) == Moment(1, 120, 120)


def test_a_run_that_is_learnt_from_is_not_played():
    """Both ways to draw take no run twice, and the second takes none of a repository that was learnt from."""
    pool = [quiet(number, source=str(number % 4)) for number in range(20)]
    for split in (split_at_random, split_by_source):
        known, new = split(pool, np.random.default_rng(3), 8, 8)
        assert not set(known) & set(new)
    assert not {pool[place].source for place in known} & {pool[place].source for place in new}


def test_a_loud_run_makes_pages_dear_for_the_others():
    """With a loud run among those that taught the budget, a weaker page does not open; without it, the page opens."""
    pool = [quiet(0), loud(1, 30.0), loud(2, 2.0)]
    opened = set()
    for seed in range(30):
        fleet = draw_fleet(
            pool, np.random.default_rng(seed), level="pages", steps_per_page=70.0, learnt=2, played=1,
            split=split_at_random,
        )  # fmt: skip
        opened.add((fleet.warranty.weight, tuple(map(tuple, fleet.opened))))
    assert opened == {(30.0**4, ((),)), (2.0**4, ((10,),)), (30.0**4 + 2.0**4, ((),))}


def test_the_report_has_a_table_of_each_level_and_budget_and_one_of_the_cost():
    """Two levels, two numbers of steps and the failing runs; a warranty that is not in force has no cost."""
    failing = RunPages(
        name="f", source="a", is_healthy=False, rows=40, end=20, alarms={level: [(15, 50.0)] for level in LEVELS}
    )
    pool = [*[quiet(number) for number in range(20)], loud(1, 2.0), failing]
    section = suite_section("Suite", pool, Plan(learnt=10, played=4, steps_per_page=(500.0, 200.0), fleets=20))
    assert (
        "21 healthy runs with 840 recorded steps and 1 failing runs. 1 of the healthy runs have a page"
        in section.notes[0]
    )
    assert len(section.tables) == 5
    assert all(len(table.rows) == len(STOPPING_TIMES) for table in section.tables[:4])
    assert all(row[1:] == ["–"] * 6 for row in section.tables[0].rows)
    assert section.tables[4].rows[0] == ["500", "0 of 1,000", "1 of 1", "–", "1", "–", "–"]
    assert section.tables[4].rows[1] == ["200", "1,000 of 1,000", "1 of 1", "1.00", "1", "1.00", "0.00"]
