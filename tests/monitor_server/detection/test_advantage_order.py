"""Advantages that do not follow the rewards: where that is a fault, and where it belongs to the algorithm."""

import math
import random

import pytest

from monitor_server.detection.base_classes.example_episodes import episodes
from monitor_server.detection.detectors.advantage_order import AdvantageOrder
from monitor_server.detection.protocol import Observation

SIGNAL = "advantage/reward_corr"


def opened(values):
    """Return the rows at which a finding opens."""
    return [row for row, _, _ in episodes(AdvantageOrder(), {SIGNAL: values})]


@pytest.mark.parametrize("broken", [-1.0, 0.0, 0.5])
def test_what_was_one_by_construction_and_is_lost_is_found_at_the_third_row(broken):
    """A wrong sign, an order of chance, and half of the responses in another order."""
    assert opened([1.0] * 30 + [broken] * 20) == [32]


def test_a_wrong_sign_from_the_start_is_found_whatever_the_algorithm():
    """In the first three rows no estimator is against the rewards."""
    assert opened([-0.4, -0.3, -0.5, -0.4]) == [2]
    assert opened([0.1, *[-0.5] * 20]) == []


def test_advantages_that_were_never_rewards_less_a_mean_are_left_alone():
    """A critic's advantages may have any correlation, and rows below 1 in between restart the count."""
    noise = random.Random(1)  # noqa: S311 - synthetic telemetry
    assert opened([0.5, *(noise.uniform(-0.2, 0.98) for _ in range(200))]) == []
    assert opened([1.0, 1.0, 1.0, 0.9] * 10 + [0.0] * 10) == []


def test_a_permutation_of_two_rows_is_no_finding_and_recovery_ends_one():
    """Two rows may be a batch with few groups that vary; a finding ends with the first row that is right."""
    assert opened([1.0] * 10 + [0.0, 0.0] + [1.0] * 10) == []
    assert opened(([1.0] * 10 + [0.0] * 5) * 2) == [12, 27]


def test_a_rewind_to_before_the_fault_withdraws_it():
    """The rows after the rewind are judged again, with the same record of how the algorithm behaves."""
    judge = AdvantageOrder()
    for step in range(20):
        found = judge.update(Observation(step=step, signals={SIGNAL: 1.0 if step < 10 else 0.0}))
    assert found
    assert not judge.update(Observation(step=8, attempt=2, signals={SIGNAL: 0.0}))


def rewound(first, again, *, back_to):
    """Return the steps at which a finding holds in the second attempt, which goes back to a step."""
    judge = AdvantageOrder()
    for step, value in enumerate(first):
        judge.update(Observation(step=step, signals={SIGNAL: value}))
    steps = enumerate(again, start=back_to)
    return [step for step, value in steps if judge.update(Observation(step=step, attempt=2, signals={SIGNAL: value}))]


def test_a_wrong_sign_is_found_again_after_a_rewind_whatever_the_replaced_rows_held():
    """All rows that are left were wrong; a row that was right counts only if it is left."""
    wrong = [-0.9] * 6
    assert rewound([math.nan, *wrong], wrong, back_to=1) == [3, 4, 5, 6]
    assert rewound([*wrong, 0.2], wrong, back_to=6) == [8, 9, 10, 11]
    assert rewound([0.2, *wrong], wrong, back_to=1) == []
    assert rewound(wrong, wrong, back_to=4) == [4, 5, 6, 7, 8, 9]  # three in a row with those that are left
    assert rewound(wrong[:3], wrong, back_to=2) == [2, 3, 4, 5, 6, 7]


def test_rows_at_1_that_a_rewind_replaces_do_not_show_that_the_advantages_are_rewards_less_a_mean():
    """A critic's advantages were at 1 in the replaced rows alone, or at 1 in three of the rows that are left."""
    lost = [0.97] * 3 + [0.7] * 6
    assert rewound([0.97] * 5 + [1.0] * 5, lost, back_to=5) == []
    assert rewound([0.97] * 5 + [1.0] * 5, [0.7] * 6, back_to=8) == []
    assert rewound([0.97] * 5 + [1.0] * 5, [0.7] * 6, back_to=9) == [11, 12, 13, 14]
    assert rewound([1.0] * 4 + [0.97] * 20, [0.7] * 6, back_to=5) == [7, 8, 9, 10]


@pytest.mark.parametrize("every", [2, 10])
def test_what_is_lost_after_a_rewind_is_found_where_most_rows_have_no_correlation(every):
    """Groups of few responses rarely vary. Rows at 1 before the rewind count, however many rows it replaces."""
    judge = AdvantageOrder()
    for step in range(300):
        judge.update(Observation(step=step, signals={} if step % every else {SIGNAL: 1.0}))
    again = [
        Observation(step=step, attempt=2, signals={} if step % every else {SIGNAL: 0.2}) for step in range(100, 200)
    ]
    assert [row.step for row in again if judge.update(row)][:1] == [100 + 2 * every]
    assert judge.update(Observation(step=150, attempt=3, signals={SIGNAL: 0.2}))  # three wrong rows are left


@pytest.mark.parametrize(("values", "found"), [([1.0] * 9, 2), ([-0.9] * 2, 0), ([0.2] * 2, None)])
@pytest.mark.parametrize("has_rows", [True, False])
def test_a_state_of_an_older_version_goes_on(values, found, has_rows):
    """It has the numbers of rows at 1 and of wrong rows; still older ones have the number of all rows."""
    judge = AdvantageOrder()
    for step, value in enumerate(values):
        judge.update(Observation(step=step, signals={SIGNAL: value}))
    new = judge.state()
    saved = {name: new[name] for name in new.keys() - {"right", "linear_steps", "wrong_steps", "wrong_rows"}}
    saved |= {"linear": values.count(1.0), "wrong": new["wrong_rows"], "since": 0 if new["wrong_steps"] else None}
    saved |= {"rows": len(values)} if has_rows else {"right": new["right"]}
    later = AdvantageOrder.from_state(saved)
    steps = range(len(values), len(values) + 4)
    rows = [step for step in steps if later.update(Observation(step=step, signals={SIGNAL: -0.9}))]
    assert rows[:1] == ([] if found is None else [len(values) + found])
