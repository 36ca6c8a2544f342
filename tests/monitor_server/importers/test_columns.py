"""Columns: numbers that arrive a metric at a time become rows by step, taken singly or many at once."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.importers.formats.columns import Columns

METRICS = ["reward", "loss", "entropy", "length"]
numbers = st.lists(
    st.tuples(
        st.integers(0, len(METRICS) - 1),
        st.integers(0, 12),
        st.floats(allow_nan=False),
        st.sampled_from([math.nan, 1.0, 2.0]),
    )
)


@given(batches=st.lists(numbers, max_size=4))
def test_many_numbers_at_once_give_the_rows_of_the_same_numbers_one_by_one(batches):
    """Steps that repeat, go back or are missing, and numbers without a time, in any order."""
    singly, at_once = Columns(), Columns()
    for batch in batches:
        for metric, step, value, time in batch:
            singly.add(METRICS[metric], step, value, None if math.isnan(time) else time)
        which, steps, values, times = zip(*batch, strict=True) if batch else ((), (), (), ())
        at_once.extend(METRICS, np.array(which, int), np.array(steps, int), np.array(values, float), np.array(times))
    assert [list(row.items()) for row in at_once.rows()] == [list(row.items()) for row in singly.rows()]


def test_metrics_of_different_steps_share_rows_in_the_order_first_logged():
    """Evaluation numbers stand in few rows, at the place at which they were first logged."""
    columns = Columns()
    for step in range(5):
        columns.add("loss", step, float(step))
        if step % 2:
            columns.add("eval", step, -1.0)
        columns.add("reward", step, 0.5, time=100.0 + step)
    rows = list(columns.rows())
    assert list(rows[3]) == ["step", "_timestamp", "loss", "reward", "eval"]
    assert rows[3]["eval"] == -1.0
    assert [row["loss"] for row in rows] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert "eval" not in rows[2]


def test_of_two_values_at_one_step_the_first_stands():
    """A trainer that logs a step twice does not replace the first values."""
    columns = Columns()
    for value in (1.0, 2.0):
        columns.add("loss", 7, value)
    assert list(columns.rows()) == [{"step": 7, "loss": 1.0}]


def test_a_step_that_fits_no_column_is_refused_and_costs_no_other_number():
    """A column that was made for it would be empty, and the next number of the metric would have no step before it."""
    columns = Columns()
    with pytest.raises(OverflowError, match="at most 64 bits"):
        columns.add("loss", 1 << 63, 0.5)
    columns.add("loss", 7, 0.25)
    assert list(columns.rows()) == [{"step": 7, "loss": 0.25}]
