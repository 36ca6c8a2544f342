"""One run that is given as two logs is recognised, whatever their formats hold; two runs never are one."""

import random

import numpy as np
import pytest

from monitor_server.commands.logs.same_runs import DistinctLogs, Fingerprint, is_same_run
from monitor_server.detection.protocol import Observation


def run(seed, *, rows=40, first=0, every=1, digits=None, fork_at=None, more=(), name="reward/mean"):
    """Return the fingerprint of a run's log; one that is forked continues with other noise from a step on."""
    draw, found = random.Random(seed), Fingerprint()  # noqa: S311 - synthetic telemetry
    for step in range(rows):
        if step == fork_at:
            draw = random.Random(seed + 1)  # noqa: S311
        value = 0.3 + 0.005 * step % 0.4 + draw.gauss(0.0, 0.05)
        if step % every or step < first:
            continue
        signals = {name: value if digits is None else digits(value), "lr": 1e-6 * step}
        found.update(Observation(step=step, signals=signals | dict.fromkeys(more, 1.0)))
    return found


@pytest.mark.parametrize(
    ("rows", "other"),
    [
        (40, {"digits": lambda value: float(np.float32(value)), "more": ("entropy/mean",)}),
        (40, {"digits": lambda value: round(value, 4)}),
        (40, {"digits": lambda value: float(f"{value:.3g}")}),
        (120, {"every": 10}),
        (5_000, {"every": 10}),
        (40, {"first": 25}),
        (40, {"fork_at": 39}),
    ],
    ids=["float32", "four digits", "three digits", "every tenth row", "long", "the end", "one other row"],
)
def test_two_logs_of_a_run_are_one_run(rows, other):
    """They may have other digits, other signals, and some of the steps."""
    assert is_same_run(run(1, rows=rows), run(1, rows=rows, **other))


@pytest.mark.parametrize(
    "other",
    [
        run(2),
        run(1, fork_at=35),
        run(1, rows=9),
        run(1, name="reward/std"),
        run(1, digits=lambda _: 0.5),
    ],
    ids=["another seed", "a fork", "too few rows", "no common signal", "a constant"],
)
def test_other_runs_are_not_the_same(other):
    """The learning rate is the same in all of them."""
    assert not is_same_run(run(1), other)
    assert not is_same_run(other, run(1))


def test_runs_of_one_constant_or_a_few_equal_values_are_not_the_same():
    """All rewards of two healthy runs may be 0, or one of a few shares."""
    runs = []
    for _ in range(2):
        runs.append(Fingerprint())
        for step in range(60):
            runs[-1].update(Observation(step=step, signals={"reward/mean": 0.5 + 0.001 * (step % 3)}))
    assert not is_same_run(*runs)


def test_runs_whose_rewards_reach_the_same_limit_are_not_the_same():
    """They learn in a few different rows, and then all have the reward 1; two logs of one of them are the same."""
    runs = []
    for seed in (1, 2, 1):
        draw = random.Random(seed)  # noqa: S311 - synthetic telemetry
        runs.append(Fingerprint())
        for step in range(400):
            reward = 0.2 + step / 20 + draw.gauss(0.0, 0.05) if step < 13 else 1.0
            runs[-1].update(Observation(step=step, signals={"reward/mean": reward}))
    assert not is_same_run(runs[0], runs[1])
    assert is_same_run(runs[0], runs[2])


@pytest.mark.parametrize("rich_first", [False, True])
def test_of_two_formats_the_one_with_more_signals_counts(rich_first):
    """Its alarms are those that a live run with these signals has."""
    logs = [("log", run(1, every=2)), ("hooks", run(1, more=("entropy/mean",)))]
    known = DistinctLogs()
    assert known.add("other", run(2)) is None
    first, second = reversed(logs) if rich_first else logs
    assert known.add(*first) is None
    same = known.add(*second)
    assert same is not None
    assert (same.left_out, "so only hooks counts" in same.reason) == ("log", True)
    again = known.add("third", run(1, every=3))
    assert again is not None
    assert again.left_out == "third"
    assert "hooks" in again.reason
