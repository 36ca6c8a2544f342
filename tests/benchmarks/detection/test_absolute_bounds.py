"""Fixed bounds on suite C: an alarm opens at the last of the rows that reach the bound."""

import math

from benchmarks.detection.absolute_bounds import Bound, bounds_table, traced
from benchmarks.detection.runs import Group, LabelledRun, Truth
from monitor_server.detection.protocol import Observation

HEALTHY = Truth(group=Group.BENIGN, kind="healthy")
EVENT = Truth(group=Group.FAILURE, kind="reward_collapse", onset=0, acceleration=0, collapse=5)
BOUND = Bound(signal="reward/zero_std_frac", least=0.9, rows=3)


def run(values, *, name="a__1", truth=HEALTHY, signal=BOUND.signal):
    """Return a run with one signal."""
    rows = [Observation(step=step, signals={signal: value}) for step, value in enumerate(values)]
    return LabelledRun(name=name, truth=truth, observations=rows)


def test_an_alarm_opens_at_the_last_of_the_successive_rows_that_reach_the_bound():
    """Rows 1 to 3 reach 0.9, where 0.9 counts; row 4 does not, and rows without a finite value change nothing."""
    assert traced(run([0.1, 0.9, 1.0, 0.95, 0.2]), BOUND).openings("warn").tolist() == [3]
    assert traced(run([0.9, math.nan, 1.0, 0.95]), BOUND).openings("warn").tolist() == [3]
    assert traced(run([0.9, 0.9, 0.2, 0.9, 0.9]), BOUND).openings("warn").tolist() == []


def test_a_run_without_the_signal_is_not_counted():
    """It can be neither alarmed nor quiet."""
    assert traced(run([1.0] * 9, signal="reward/mean"), BOUND) is None
    (row,) = bounds_table([run([1.0] * 9, signal="reward/mean"), run([1.0] * 9)], [BOUND]).rows
    assert row[2].startswith("1 of 1 [")


def test_negatives_are_counted_by_run_by_repository_and_by_length_and_events_by_their_window():
    """Of two negatives of one repository and one of another, one is alarmed; the event at row 5 is found at row 4."""
    runs = [
        run([1.0] * 61),
        run([0.0] * 9, name="a__2"),
        run([0.0] * 9, name="b__1"),
        run([0.0, 0.0, 1.0, 1.0, 1.0, 0.0], truth=EVENT),
        run([0.0] * 12 + [1.0] * 9, truth=EVENT),
    ]
    (row,) = bounds_table(runs, [BOUND]).rows
    assert row[:2] == ["reward/zero_std_frac", "0.9 in 3 rows"]
    assert row[2].startswith("1 of 3 [")
    assert row[3] == "25.0 %"
    assert row[4].startswith("0 of 2 [")
    assert row[5].startswith("1 of 2 [")
