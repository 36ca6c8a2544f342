"""The signal that moved first: by hand, on recorded runs, and on any numbers."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor_server.attribution.onsets import moved_signals
from monitor_server.attribution.vitals import VITALS

RUNS = Path(__file__).parents[3] / "docs/experiments/runs"


def signal(values, *, start=0):
    return np.arange(start, start + len(values)), np.array(values, dtype=np.float64)


def noisy(levels, *, sigma=0.01, seed=0):
    return signal(np.array(levels) + sigma * np.random.default_rng(seed).normal(size=len(levels)))


def test_a_jump_is_dated_to_its_row():
    """20 rows at 0.5, then 1.0 from step 20 on: a constant has no noise, so both ends of the interval are 20 to 21."""
    (moved,) = moved_signals({"entropy/mean": signal([0.5] * 20 + [1.0] * 5)}, opened_step=24)
    assert (moved.direction, moved.baseline, moved.level) == ("rise", 0.5, 1.0)
    # The CUSUM leaves 0 at 20; the median of 3 rows is up from 21 on.
    assert moved.onset == (20, 21)


def test_a_ramp_begins_where_its_interval_says():
    """Flat to step 60, then 0.02 a step in noise of 0.01: it is clear within ten steps of its beginning."""
    ramp = noisy([0.3] * 60 + [0.3 + 0.02 * step for step in range(30)])
    (moved,) = moved_signals({"entropy/mean": ramp}, opened_step=89)
    earliest, latest = moved.onset
    assert earliest <= 62 <= latest + 2
    assert latest <= 70


def test_only_the_bad_direction_counts():
    """A likelihood that rises and a reward that rises are learning; entropy may go wrong both ways."""
    up = signal([0.1] * 20 + [0.9] * 5)
    rising = dict.fromkeys(("likelihood/correct", "reward/mean", "entropy/mean", "ratio/ess_frac"), up)
    assert [moved.signal for moved in moved_signals(rising, opened_step=24)] == ["entropy/mean"]


def test_what_comes_after_the_alert_is_not_read():
    """The same signals give the same answer however far the run went on."""
    values = [0.5] * 20 + [1.0] * 5
    short = moved_signals({"entropy/mean": signal(values)}, opened_step=24)
    assert short == moved_signals({"entropy/mean": signal([*values, *[9.0] * 50])}, opened_step=24)
    assert moved_signals({"entropy/mean": signal(values)}, opened_step=15) == []


def test_the_first_to_move_comes_first_and_ties_are_named():
    """The order of two jumps at 20 is not known; one at 30 is surely later."""
    jump = lambda at: signal([0.2] * at + [1.2] * (40 - at))  # noqa: E731
    signals = {"kl/old": jump(30), "ratio/clip_frac": jump(20), "entropy/mean": jump(20)}
    moved = moved_signals(signals, opened_step=39)
    assert [(m.signal, m.is_surely_later) for m in moved] == [
        ("entropy/mean", False),
        ("ratio/clip_frac", False),
        ("kl/old", True),
    ]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_that_is_none_any_more_moved_when_it_became_so(bad):
    """The onset is not the isolated NaN before, from which the signal recovered."""
    values = [1.0, math.nan, 1.0, 2.0, bad, bad]
    (moved,) = moved_signals({"grad/norm": signal(values)}, opened_step=5)
    assert (moved.direction, moved.onset, moved.baseline, moved.level) == ("not finite", (4, 4), 2.0, None)


def test_norms_are_read_as_logarithms_and_changes_as_sums():
    """A norm that moves from 2 to 8 is returned in its own unit; −0.01 a step for 30 steps is a fall of 0.3."""
    gradient = noisy([math.log(2.0)] * 40 + [math.log(8.0)] * 10)
    (moved,) = moved_signals({"grad/norm": (gradient[0], np.exp(gradient[1]))}, opened_step=49)
    assert (moved.baseline, moved.level) == (pytest.approx(2.0, rel=0.05), pytest.approx(8.0, rel=0.05))
    (moved,) = moved_signals({"displacement/cross": signal([0.0] * 30 + [-0.01] * 30)}, opened_step=59)
    assert (moved.direction, moved.level) == ("fall", pytest.approx(-0.29))


@pytest.mark.parametrize(("seed", "page"), [(0, 43), (1, 42), (2, 34), (3, 49), (4, 45)])
def test_on_recorded_deaths_the_steps_size_moved_before_the_likelihood(seed, page):
    """By docs/experiments, too large a step size ends these runs: a ratio or KL to the old policy moves first."""
    with gzip.open(RUNS / f"grpo-seed{seed}.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    signals = {
        name: tuple(np.array(column) for column in zip(*((r["step"], r[name]) for r in rows if name in r), strict=True))
        for name in VITALS
        if any(name in row for row in rows)
    }
    moved = moved_signals(signals, opened_step=page)
    assert moved[0].signal.startswith(("ratio/", "kl/old"))
    assert all(1 <= earliest <= latest <= page for earliest, latest in (m.onset for m in moved))


@example(values=[1e308] * 20, name="entropy/paired_delta", opened=19)
@example(values=[0.0] * 10 + [1e308] * 10, name="entropy/mean", opened=19)
@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60),
    name=st.sampled_from(list(VITALS)),
    opened=st.integers(-1, 70),
)
def test_any_numbers_are_answered_and_left_as_they_were(values, name, opened):
    """No exception, no number that is none where one is promised, an onset within the steps read."""
    steps, held = signal(values)
    before = held.copy()
    for moved in moved_signals({name: (steps, held), "of/mine": (steps, held)}, opened_step=opened):
        assert moved.signal == name
        assert 0 <= moved.onset[0] <= moved.onset[1] <= opened
        assert moved.level is None or math.isfinite(moved.level)
    np.testing.assert_array_equal(held, before)
