"""The ranges of the values of healthy runs, against known numbers."""

import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from monitor_server.detection.expected_ranges import (
    LEAST_RUNS,
    MOST_VALUES,
    ExpectedRange,
    RunValues,
    expected_ranges,
    interval_of,
)
from monitor_server.detection.protocol import Observation
from tests.recorded_runs import read_run

RUNS = Path(__file__).parents[3] / "docs/experiments/runs"


def run_of(values, signal="reward/mean", *, first=0):
    """Return the contribution of a run that has these values at successive steps."""
    run = RunValues()
    for step, value in enumerate(values, start=first):
        run.update(Observation(step=step, signals={signal: value}))
    return run


def test_intervals_cover_all_steps_and_touch():
    """Each step lies in its own interval, and the next interval begins where it ends."""
    for step in range(3000):
        first, after = interval_of(step)
        assert first <= step < after
        assert interval_of(after)[0] == after


def test_a_range_holds_nine_tenths_of_the_values():
    """Runs of the constants 0, 1, …, 100: 90 % of the values are those from 5 to 95."""
    ranges = expected_ranges(run_of([float(number)] * 12) for number in range(101))
    assert ranges == {
        "reward/mean": ExpectedRange(steps=(0, 8, 12), low=(5.0, 5.0), high=(95.0, 95.0), runs=101),
    }


def test_each_run_has_the_same_weight():
    """One run that logs every step does not outweigh nine that log one value in an interval."""
    runs = [run_of([1.0] * 32, first=32), *(run_of([0.0], first=40) for _ in range(39))]
    assert expected_ranges(runs)["reward/mean"].high == (0.0,)


def test_a_range_ends_where_there_are_too_few_runs():
    """Five runs reach step 8 and four reach step 12; a signal of four runs has no range."""
    runs = [run_of([0.5] * 12) for _ in range(LEAST_RUNS - 1)] + [run_of([0.5] * 8)]
    assert expected_ranges(runs)["reward/mean"].steps == (0, 8)
    assert expected_ranges(runs[:-1]) == {}


def test_values_that_are_not_finite_and_steps_before_a_rewind_are_passed_over():
    """NaN and infinity are no part of a range; an interval that was left is not opened again."""
    rewound = run_of([0.5, math.nan, math.inf, *[0.5] * 9])
    rewound.update(Observation(step=2, signals={"reward/mean": 99.0}))
    held = expected_ranges([rewound, *(run_of([0.5] * 12) for _ in range(4))])["reward/mean"]
    assert (held.low, held.high) == ((0.5, 0.5), (0.5, 0.5))


def test_the_largest_numbers_have_a_range():
    """Values as far apart as numbers can be have a range, and do not remove the ranges of other signals."""
    runs = [run_of([1.7e308, -1.7e308] * 4) for _ in range(LEAST_RUNS)]
    found = expected_ranges(runs)["reward/mean"]
    assert (found.low, found.high) == ((-1.7e308,), (1.7e308,))


def test_a_long_interval_is_thinned_and_its_quantiles_stay():
    """Of 32,768 values from 0 to 1 at most 4,096 are held, at 8 bytes each, and the middle stays in the middle."""
    values = np.linspace(0.0, 1.0, 1 << 15)
    tracemalloc.start()
    run = run_of(values, first=1 << 16)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 * 8 * MOST_VALUES
    run.close()
    ((values),) = run.kept.values()
    assert values[len(values) // 2] == pytest.approx(0.5, abs=0.01)


def test_recorded_collapses_leave_the_range_of_recorded_runs_that_lived():
    """The first 100 steps of runs at half the rate stand in for healthy ones; each other falls below by their width."""
    healthy = [read_run(path)[:100] for path in sorted(RUNS.glob("half-lr-seed*.jsonl.gz"))]
    learnt = []
    for steps in healthy:
        learnt.append(RunValues())
        for step in steps:
            learnt[-1].update(step)
    held = expected_ranges(learnt)["likelihood/correct"]
    assert held.runs == LEAST_RUNS

    def inside(run):
        steps = [step for step in run if step.step < held.steps[-1]]
        places = np.searchsorted(held.steps, [step.step for step in steps], side="right") - 1
        values = np.array([step.signals.get("likelihood/correct", np.nan) for step in steps])
        return (np.take(held.low, places) <= values) & (values <= np.take(held.high, places))

    assert 0.85 < np.concatenate([inside(steps) for steps in healthy]).mean() < 0.95
    for path in RUNS.glob("grpo-seed*.jsonl.gz"):
        lowest = min(step.signals.get("likelihood/correct", 0.0) for step in read_run(path))
        assert held.low[-1] - lowest > held.high[-1] - held.low[-1]


@pytest.mark.parametrize(
    "columns",
    [
        {"steps": (0,), "low": (), "high": ()},
        {"steps": (0, 8), "low": (1.0,), "high": ()},
        {"steps": (8, 8), "low": (1.0,), "high": (1.0,)},
        {"steps": (0, 8), "low": (math.nan,), "high": (1.0,)},
    ],
)
def test_columns_that_are_no_range_are_refused(columns):
    """A file that was edited by hand cannot put them into a chart."""
    with pytest.raises(ValueError, match="range must"):
        ExpectedRange(**columns, runs=5)
