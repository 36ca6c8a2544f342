"""Advantages that do not follow the rewards: where that is a fault, and where it belongs to the algorithm."""

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
