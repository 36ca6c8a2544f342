"""The baselines give their known answers."""

import math

import pytest

from benchmarks.detection.candidates.baselines import baselines, random_trace
from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.traces import Mark, Trace
from monitor_server.detection.protocol import Observation

RULES = {candidate.name: candidate.replay for candidate in baselines()}


def stream(signal, values):
    """Return one observation a value."""
    return [Observation(step=step, signals={signal: value}) for step, value in enumerate(values)]


def warned(name, observations):
    """Return the steps on which a rule warns."""
    marks = RULES[name](observations)
    return [o.step for o, mark in zip(observations, marks, strict=True) if mark.warn >= 1.0]


def test_never_is_silent_and_always_is_not():
    """The two ends of every table."""
    rows = stream("reward/mean", [0.5] * 5)
    assert warned("never", rows) == []
    assert warned("always", rows) == [0, 1, 2, 3, 4]


def test_the_step_prior_alarms_from_its_step_on():
    """It reads only the step."""
    assert warned("step 60", stream("x", [0.0] * 62)) == [60, 61]


def test_reward_drop_warns_at_a_fifth_and_pages_at_half():
    """EMA after a fall from 1 to 0 is 0.8ⁿ: n = 1 gives 0.8, a drop of 20 %; n = 4 gives 0.41, a drop over 50 %."""
    rows = stream("reward/mean", [1.0] * 30 + [0.0] * 5)
    marks = RULES["reward drop 20 % / 50 %"](rows)
    assert [step for step, mark in enumerate(marks) if mark.warn >= 0.999] == [30, 31, 32, 33, 34]
    assert [step for step, mark in enumerate(marks) if mark.page >= 1.0] == [33, 34]


def test_gradient_rules_hear_a_surge():
    """A tenfold gradient exceeds three sigmas at its first row, and doubles the median of 5 rows after three rows."""
    values = [1.0 + 0.1 * math.sin(step) for step in range(50)] + [10.0] * 5
    assert warned("gradient 3σ", stream("grad/norm", values))[0] == 50
    assert warned("gradient doubled", stream("grad/norm", values))[0] == 52


def test_the_z_score_needs_thirty_rows():
    """The first 30 rows fill the window; the 31st, far off, alarms; a constant never does."""
    values = [math.sin(step) for step in range(30)]
    name = "z-score 30 rows 3σ / 6σ (W&B style)"
    assert warned(name, stream("kl/old", [*values, 100.0])) == [30]
    assert warned(name, stream("kl/old", [1.0] * 40)) == []


@pytest.mark.parametrize("name", RULES)
def test_no_rule_breaks_on_nan_or_absence(name):
    """NaN and absent signals are data."""
    rows = stream("grad/norm", [math.nan] * 3) + stream("reward/mean", [math.nan, 0.1])
    assert len(RULES[name](rows)) == 5


def test_the_coin_alarms_at_its_rate_and_the_same_way_every_time():
    """At a rate of 0.5 about half of 1,000 rows: within five standard deviations of 500 (√250 = 15.8)."""
    quiet = Trace.of("run", Truth(group=Group.BENIGN, kind="none"), range(1000), [Mark()] * 1000)
    coin = random_trace(quiet, warn_rate=0.5, page_rate=0.0)
    assert abs(int(coin.warn.sum()) - 500) < 80
    assert coin.page.sum() == 0
    assert (coin.warn == random_trace(quiet, warn_rate=0.5, page_rate=0.0).warn).all()
