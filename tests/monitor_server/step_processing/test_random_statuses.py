"""Starts, ends, acknowledgements and silence, in any order and with crashes, are as if one collector had seen them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.monitor_server.simulated_collectors import random_examples
from tests.monitor_server.step_processing.random_lives import Life


@random_examples(2)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.usefixtures("small_parts")
def test_the_life_of_a_run_is_the_same_as_with_one_collector(two_stores, scripted, clock, seed):
    """Statuses, alerts with their stages, steps, phases and what detection has seen are equal at each look."""
    Life(seed, two_stores, scripted, clock).live(50)
